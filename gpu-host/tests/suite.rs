//! All tests of the trainer, in one binary, because every binary links the whole trainer.

mod foreign;
mod gradients;
mod integers;
mod layout;
mod lesson;
#[cfg(all(feature = "cudnn", target_os = "linux"))]
mod machine;
mod processes;
mod recipes;
#[cfg(all(feature = "cudnn", target_os = "linux"))]
mod stand_in;
mod strangers;
mod training;
