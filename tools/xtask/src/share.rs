//! Long checks that `cargo xtask test` and `cargo xtask check` divide among days, so that CI ends in time.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;

/// The number of a day, to repeat the shares of that day.
const DAY: &str = "TIDEGATE_DAY";

/// Today's share of a number of shares.
pub fn of_today(shares: usize) -> Result<usize, Failure> {
    let day = match env::var(DAY) {
        Ok(day) => day.parse().map_err(|_| format!("{DAY} is not a number: {day}"))?,
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs() / 86_400,
    };
    Ok(day as usize % shares)
}
