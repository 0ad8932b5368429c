//! The server under load on the loopback, with clients that behave and clients that do not.

mod clients;
mod hostile;
mod pool;
