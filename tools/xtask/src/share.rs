//! Long checks that `cargo xtask test` and `cargo xtask check` divide among days, so that CI ends in time.

use std::env;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::shell::say;

/// The variable that sets the day, in days since 1970-01-01.
const DAY: &str = "TIDEGATE_DAY";

/// Today's share of a number of shares. The first call says which day this is.
pub fn of_today(shares: usize) -> Result<usize, Failure> {
    static TODAY: OnceLock<Result<u64, Failure>> = OnceLock::new();
    let read = || {
        let day = match env::var(DAY) {
            Ok(day) => day.parse().map_err(|_| format!("{DAY} is not a number: {day}"))?,
            Err(_) => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs() / 86_400
            }
        };
        say(&format!("today's shares of the long checks: {DAY}={day}"));
        Ok(day)
    };
    TODAY.get_or_init(read).clone().map(|day| day as usize % shares)
}

/// Says that a check runs on another day, and which command runs it now.
pub fn leaves_out(what: &str, command: &str) {
    say(&format!("SKIP {what}: on another day; `{command}` runs it"));
}

/// The index of today's check. Says which checks run on other days, and the commands for them.
pub fn one_of_today(checks: &[String], command: &str) -> Result<usize, Failure> {
    let today = of_today(checks.len())?;
    for (day, what) in checks.iter().enumerate().filter(|(day, _)| *day != today) {
        leaves_out(what, &format!("{DAY}={day} {command}"));
    }
    Ok(today)
}
