#![doc = include_str!("../README.md")]

pub mod device;
pub mod plot;
pub mod progress;
pub mod report;
pub mod zoo;

/// 1234567 as `1,234,567`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
