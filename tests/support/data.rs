//! Helpers for tests that use data outside the repository: finding the data, and processing many clips in parallel.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The data folder, or `None` after printing which test is skipped.
pub fn folder(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TIDEGATE_DATA_DIR").map(PathBuf::from);
    if folder.is_none() {
        println!("SKIP {what}: TIDEGATE_DATA_DIR is not set");
    }
    folder
}

/// Runs `work(0)` to `work(count - 1)` on all CPU cores and returns the results in order.
pub fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let turns = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        turns.take_while(|&turn| turn < count).map(|turn| (turn, work(turn))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no work panics")).collect()
    });
    done.sort_unstable_by_key(|&(turn, _)| turn);
    done.into_iter().map(|(_, value)| value).collect()
}
