//! Hostile files, read with limits on memory and time: the budget of [`tidegate_model::budget`] holds for each of them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tidegate_model::data::{is_audio, read_audio, read_tensors};
use tidegate_model::load::{self, Settings};
use tidegate_tests::hostile::{self, Hostile};

/// Bytes in use, and the most since the last reset, over all threads.
static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
/// Ensures that only one file is read at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

fn add(bytes: usize) {
    MOST.fetch_max(USED.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting does not allocate.
#[expect(unsafe_code, reason = "only an allocator can count allocations")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    // A grown block counts only with its new size: the system moves its pages.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        USED.fetch_sub(layout.size(), Relaxed);
        add(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The cost of reading a file: bytes in use at once, and time of a processor.
fn cost(read: impl FnOnce()) -> (usize, Duration) {
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let (start, busy) = (Instant::now(), busy());
    read();
    let took = busy.zip(self::busy()).map_or_else(|| start.elapsed(), |(from, to)| to - from);
    (MOST.load(Relaxed) - before, took)
}

/// Time of this thread on a processor, where the system reports it: other tests run at the same time.
fn busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// Reads every file and checks what it costs: 8 times its length and 64 MiB, and two seconds.
fn replay(files: fn() -> Vec<Hostile>, read: fn(&Path) -> String) {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for Hostile { file, bytes } in files() {
        let path = folder.path().join(file);
        fs::write(&path, &bytes).unwrap();
        let len = bytes.len();
        drop(bytes);
        let mut answer = String::new();
        let (most, took) = cost(|| answer = read(&path));
        let answer: String = answer.chars().take(200).collect();
        let line = format!("{file}: {len} bytes, {} MB, {:.2} s: {answer}", most >> 20, took.as_secs_f32());
        println!("{line}");
        if most > 8 * len + (64 << 20) || took > Duration::from_secs(2) {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn hostile_models_cost_little() {
    replay(hostile::models, |path| match load::image(path, &Settings::default(), None) {
        Ok(image) => format!("an image of {} bytes", image.bytes().len()),
        Err(error) => error.to_string(),
    });
}

#[test]
fn hostile_arrays_and_sounds_cost_little() {
    replay(hostile::data, |path| match is_audio(path) {
        true => read_audio(path).map_or_else(|error| error.to_string(), |audio| format!("{} s", audio.seconds())),
        false => read_tensors(path).map_or_else(|error| error.to_string(), |tensors| format!("{}", tensors.len())),
    });
}
