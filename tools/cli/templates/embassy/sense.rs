//! Sends the samples of `source` at their rate. FILL IN: replace it with the driver of your sensor or microphone.

use embassy_time::{Duration, Ticker};

use crate::network::BLOCK_MS;
use crate::{SAMPLES, source};

#[embassy_executor::task]
pub async fn sense() {
    let mut ticker = Ticker::every(Duration::from_millis(BLOCK_MS.into()));
    loop {
        for block in (0..).map_while(source::read) {
            ticker.next().await;
            SAMPLES.send(block).await;
        }
    }
}
