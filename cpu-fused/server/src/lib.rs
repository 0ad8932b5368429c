//! A server of live streams: each client sends sound over a WebSocket, and gets the events that a model hears in it. All
//! clients are streams of one [`PoolServer`], so the weights are read once for many of them.
//!
//! | path | |
//! |---|---|
//! | `/listen` | a WebSocket: sound in, as binary messages of 16-bit samples, least byte first, at the rate of the model; events out, as JSON |
//! | `/metrics` | counts and waiting times for Prometheus |
//! | `/health` | `ok` |
//!
//! A client that sends faster than its stream is stepped is not read meanwhile, until its connection is full.

mod client;
mod metrics;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{State, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tidegate::{DetectorSettings, ImageBytes, Mfcc, Model};
use tidegate_fused::{FusedModel, PoolServer, host_front_end};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use metrics::Metrics;

/// Limits on clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams, and how long their frames wait for each other.
    pub pool: tidegate_fused::Limits,
    /// Connections that are not yet WebSockets.
    pub connections: usize,
    /// Longest message in bytes.
    pub message: usize,
    /// How long a client may be silent, and how long it may take for its request and for reading an event.
    pub idle: Duration,
}

impl Default for Limits {
    /// 4,096 streams, 256 connections, messages of 64 KiB, and ten seconds.
    fn default() -> Self {
        Self {
            pool: tidegate_fused::Limits::default(),
            connections: 256,
            message: 64 << 10,
            idle: Duration::from_secs(10),
        }
    }
}

/// A model that listens.
#[derive(Clone, Copy, Debug)]
struct Listener {
    model: Model<'static>,
    mfcc: Mfcc<'static>,
    detector: DetectorSettings<'static>,
}

/// State that all connections share.
struct Shared {
    listener: Listener,
    pool: PoolServer,
    metrics: Metrics,
    limits: Limits,
    /// Becomes true when the server stops. It waits until nobody listens to it.
    stops: watch::Sender<bool>,
}

/// A server that is ready to accept clients.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

impl Server {
    /// A server of an image with a front end and a detector. The image stays in memory until the program ends.
    ///
    /// # Errors
    /// If the image is refused, has no front end or no detector, or no thread starts.
    pub fn new(image: &[u8], limits: Limits) -> io::Result<Self> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let mut words = vec![0_u64; image.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..image.len()].copy_from_slice(image);
        let bytes: &'static [u8] = &bytemuck::cast_slice(words.leak())[..image.len()];
        let bytes = ImageBytes::new(bytes).map_err(|error| invalid(error.to_string()))?;
        let model = Model::parse(bytes).map_err(|error| invalid(error.to_string()))?;
        let lacks = |what: &str| invalid(format!("the image has no {what}"));
        let mfcc = host_front_end(
            model
                .front_end()
                .ok_or_else(|| lacks("front end: pack a model that takes sound, or name one with --front-end"))?,
        );
        let detector = *model.detector().ok_or_else(|| lacks("detector: pack it with --front-end and --threshold"))?;
        let pool = PoolServer::start(&FusedModel::new(&model), limits.pool)?;
        let listener = Listener { model, mfcc, detector };
        Ok(Self(Arc::new(Shared { listener, pool, metrics: Metrics::new(), limits, stops: watch::Sender::new(false) })))
    }

    /// Serves clients until [`stop`](Self::stop), then says goodbye to them and waits for their tasks.
    ///
    /// # Errors
    /// If clients remain after the time in which each should end.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let shared = &self.0;
        let mut stops = shared.stops.subscribe();
        let connections = Arc::new(Semaphore::new(shared.limits.connections));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(shared.limits.idle);
        let service = TowerToHyperService::new(self.routes());
        loop {
            let accepted = async {
                // The permit is for the request: a WebSocket has a stream instead.
                let permit = connections.clone().acquire_owned().await;
                (permit, listener.accept().await)
            };
            let (permit, socket) = tokio::select! {
                accepted = accepted => accepted,
                _ = stops.wait_for(|stops| *stops) => break,
            };
            let Ok((socket, _)) = socket else {
                // For example, there are no file descriptors left.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let connection = http.serve_connection(TokioIo::new(socket), service.clone()).with_upgrades();
            let mut stops = shared.stops.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    _ = connection => {}
                    _ = stops.wait_for(|stops| *stops) => {}
                }
                drop(permit);
            });
        }
        drop((stops, listener));
        let ended = timeout(2 * shared.limits.idle, shared.stops.closed()).await;
        ended.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "some clients have not ended"))
    }

    /// Ends [`serve`](Self::serve).
    pub fn stop(&self) {
        self.0.stops.send_replace(true);
    }

    /// The metrics as text.
    pub fn metrics(&self) -> String {
        self.0.metrics.text(&self.0.pool.served())
    }

    fn routes(&self) -> Router {
        Router::new()
            .route("/listen", get(listen))
            .route("/metrics", get(|State(shared): State<Self>| async move { shared.metrics() }))
            .route("/health", get(|| async { "ok" }))
            .with_state(self.clone())
    }
}

/// Gives a client a stream, or says that there is none.
async fn listen(upgrade: WebSocketUpgrade, State(Server(shared)): State<Server>) -> Response {
    match shared.pool.join().await {
        Ok(stream) => {
            let upgrade = upgrade.max_message_size(shared.limits.message).max_frame_size(shared.limits.message);
            upgrade.on_upgrade(|socket| client::serve(shared, socket, stream))
        }
        Err(error) => {
            shared.metrics.refused.inc();
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}
