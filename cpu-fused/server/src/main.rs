//! The server on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_server::{Limits, Server};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Serves live streams of a model over WebSockets: sound in, events out.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  tidegate-server kws.tgi --listen 127.0.0.1:8080")]
struct Arguments {
    /// An image with a front end and a detector
    image: PathBuf,
    /// Where clients connect
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Largest number of clients
    #[arg(long, default_value_t = Limits::default().pool.streams)]
    streams: usize,
    /// How long a frame waits for those of other clients, in milliseconds
    #[arg(long, default_value_t = 2)]
    deadline_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let Arguments { image, listen, streams, deadline_ms } = arguments;
    let of_image = |error: std::io::Error| format!("{}: {error}", image.display());
    let mut limits = Limits::default();
    (limits.pool.streams, limits.pool.deadline) = (streams, Duration::from_millis(deadline_ms));
    let server = Server::new(&std::fs::read(&image).map_err(of_image)?, limits).map_err(of_image)?;
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    println!("listening on ws://{address}/listen; metrics are at http://{address}/metrics");
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let stopping = server.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
        }
        stopping.stop();
    });
    server.serve(listener).await.map_err(|error| error.to_string())
}
