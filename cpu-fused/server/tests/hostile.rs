//! Clients that stall, vanish, send garbage or too much end alone: the others go on.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tidegate_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::clients::{Running, clips, heard_alone, received, sent};

/// Impatient, with few streams and connections.
fn limits() -> Limits {
    let mut limits = Limits { connections: 4, message: 4096, idle: Duration::from_millis(1000), ..Limits::default() };
    limits.pool.streams = 6;
    limits
}

/// How a client ends that sends one message.
async fn end_of(running: &Running, message: Message) -> Option<CloseCode> {
    let mut socket = running.connect_when_free().await;
    socket.send(message).await.unwrap();
    received(socket).await.1
}

/// A client with real clips.
async fn is_well(running: &Running) {
    let clips = clips();
    let sound = [&clips[11][..], &clips[17]].concat();
    let (found, _) = sent(running.connect_when_free().await, &sound, 400).await;
    assert_eq!(found, heard_alone(&sound));
    assert!(!found.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_misbehave_end_and_the_others_go_on() {
    let running = Running::start(limits()).await;
    is_well(&running).await;
    // Garbage and too much.
    assert_eq!(end_of(&running, Message::Text("hello".into())).await, Some(CloseCode::Unsupported));
    assert_eq!(end_of(&running, Message::Binary(vec![1; 641].into())).await, Some(CloseCode::Unsupported));
    assert_eq!(end_of(&running, Message::Binary(vec![0; 5000].into())).await, Some(CloseCode::Size));
    // Silence. An empty message and a ping are no sound.
    assert_eq!(end_of(&running, Message::Binary(vec![0; 640].into())).await, Some(CloseCode::Policy));
    // Requests that are none, or never end, take a connection for a while only.
    for _ in 0..3 {
        let mut stalled = Vec::new();
        for start in [&b"GET /listen HTT"[..], b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01\x02\0"] {
            let mut socket = TcpStream::connect(&running.address).await.unwrap();
            socket.write_all(start).await.unwrap();
            stalled.push(socket);
        }
        is_well(&running).await;
        for mut socket in stalled {
            let mut rest = Vec::new();
            let _ = timeout(Duration::from_secs(5), socket.read_to_end(&mut rest)).await.expect("it is closed");
        }
    }
    // Clients that vanish without a word leave their streams.
    for _ in 0..20 {
        let mut socket = running.connect_when_free().await;
        socket.send(Message::Binary(vec![0; 3200].into())).await.unwrap();
        drop(socket);
    }
    is_well(&running).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_clients_until_one_leaves() {
    let mut limits = limits();
    limits.idle = Duration::from_secs(20);
    let running = Running::start(limits).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(running.connect().await);
    }
    match running.try_connect().await {
        Err(Error::Http(answer)) => assert_eq!(answer.status(), 503),
        other => panic!("{other:?}"),
    }
    assert!(running.get("/metrics").await.contains("tidegate_refused_total 1\n"));
    let mut last = clients.pop().unwrap();
    last.close(None).await.unwrap();
    while last.next().await.is_some() {}
    running.connect_when_free().await;
    drop(clients);
    running.stop().await;
}
