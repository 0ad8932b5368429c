//! The engine against the oracle: images, cells, layers, numerics, streaming and the front end.

#[path = "../compile_time.rs"]
mod compile_time;
#[path = "../conv_lstm.rs"]
mod conv_lstm;
#[path = "../update/device.rs"]
mod device;
#[path = "../family.rs"]
mod family;
#[path = "../update/flash.rs"]
mod flash;
#[path = "../front_end.rs"]
mod front_end;
#[path = "../front_end_integer.rs"]
mod front_end_integer;
#[path = "../front_end_log_mel.rs"]
mod front_end_log_mel;
#[path = "../front_end_micro.rs"]
mod front_end_micro;
#[path = "../fuzz_update.rs"]
mod fuzz_update;
#[path = "../image.rs"]
mod image;
#[path = "../image_nodes.rs"]
mod image_nodes;
#[path = "../in_place.rs"]
mod in_place;
#[path = "../integer.rs"]
mod integer;
#[path = "../integer_growth.rs"]
mod integer_growth;
#[path = "../integer_layers.rs"]
mod integer_layers;
#[path = "../layers.rs"]
mod layers;
#[path = "../parity.rs"]
mod parity;
#[path = "../parse_time.rs"]
mod parse_time;
#[path = "../precise.rs"]
mod precise;
#[path = "../save_point.rs"]
mod save_point;
#[path = "../self_test.rs"]
mod self_test;
#[path = "../sequence.rs"]
mod sequence;
#[path = "../signed.rs"]
mod signed;
#[path = "../stft.rs"]
mod stft;
#[path = "../streamed.rs"]
mod streamed;
#[path = "../streaming.rs"]
mod streaming;
#[path = "../sums.rs"]
mod sums;
#[path = "../update.rs"]
mod update;
#[path = "../update_async.rs"]
mod update_async;
#[path = "../update_cuts.rs"]
mod update_cuts;
#[path = "../update/fuzz.rs"]
mod update_fuzz;
#[path = "../update_session.rs"]
mod update_session;
