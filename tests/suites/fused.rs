//! The kernels for hosts against the scalar engine.

#[path = "../fused.rs"]
mod fused;
#[path = "../fused_front_end.rs"]
mod fused_front_end;
#[path = "../fused_integer.rs"]
mod fused_integer;
#[path = "../fused_pool.rs"]
mod fused_pool;
#[path = "../fused_windows.rs"]
mod fused_windows;
