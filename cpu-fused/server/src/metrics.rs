//! Metrics in the text format of Prometheus.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tidegate_fused::Served;

/// Bounds in seconds of the waiting times that are told apart.
const BOUNDS: [f64; 9] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5];

/// How a connection has ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelValue)]
pub enum End {
    /// The client closed it.
    Left,
    /// The connection broke.
    Gone,
    /// The client was silent, or did not read.
    Idle,
    /// A message was not sound.
    Garbage,
    /// A message was too long.
    TooLong,
    /// The stream failed.
    Failed,
    /// The server stopped.
    Stopped,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct Reason {
    reason: End,
}

/// The counts of the connections.
pub struct Metrics {
    registry: Registry,
    /// Events that clients were sent.
    pub events: Counter,
    /// Clients that got no stream.
    pub refused: Counter,
    ends: Family<Reason, Counter>,
    wait: Histogram,
    streams: Gauge,
    busy: Gauge<f64, std::sync::atomic::AtomicU64>,
    frames: Gauge,
    calls: Gauge,
}

impl Metrics {
    /// Counts of zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let new = Self {
            events: Counter::default(),
            refused: Counter::default(),
            ends: Family::default(),
            wait: Histogram::new(BOUNDS),
            streams: Gauge::default(),
            busy: Gauge::default(),
            frames: Gauge::default(),
            calls: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("events", "Events that clients were sent", new.events.clone());
        registry.register("refused", "Clients that got no stream", new.refused.clone());
        registry.register("ended", "Connections that have ended", new.ends.clone());
        registry.register("wait_seconds", "From a frame to its output", new.wait.clone());
        registry.register("streams", "Live streams", new.streams.clone());
        registry.register("busy_seconds", "Time of the thread that steps", new.busy.clone());
        registry.register("frames", "Frames that were stepped", new.frames.clone());
        registry.register("calls", "Calls that stepped them", new.calls.clone());
        Self { registry, ..new }
    }

    /// Counts the end of a connection.
    pub fn ended(&self, reason: End) {
        self.ends.get_or_create(&Reason { reason }).inc();
    }

    /// Counts the time from a frame to its output.
    pub fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }

    /// All counts as text.
    pub fn text(&self, served: &Served) -> String {
        self.streams.set(served.streams as i64);
        self.busy.set(served.busy.as_secs_f64());
        self.frames.set(served.frames as i64);
        self.calls.set(served.calls as i64);
        let mut text = String::new();
        // A string takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
