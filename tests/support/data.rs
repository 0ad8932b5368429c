//! Helpers for tests on real data: finding it, bars for a part of it, and processing many clips in parallel.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The folder of the whole data. Without it, tests read the part that is in the repository.
fn whole() -> Option<PathBuf> {
    std::env::var_os("TIDEGATE_DATA_DIR").map(PathBuf::from)
}

/// Whether the tests read the whole data.
pub fn is_whole() -> bool {
    whole().is_some()
}

/// A file of the data.
///
/// # Panics
/// If it does not exist.
pub fn file(path: &str) -> PathBuf {
    let small = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/small");
    let file = whole().unwrap_or_else(small).join(path);
    assert!(file.is_file(), "{}: there is no such file; CONTRIBUTING.md describes the test data", file.display());
    file
}

/// The number of cases out of `count` that may fail if at most `most` of `of` cases may fail in the whole data. Failures in
/// a part of the data scatter around their share, so three standard deviations of the count are added.
pub fn allowed(most: usize, of: usize, count: usize) -> usize {
    let share = (most * count) as f64 / of as f64;
    let scatter = if is_whole() { 0.0 } else { 3.0 * share.sqrt() };
    (share + scatter) as usize
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
