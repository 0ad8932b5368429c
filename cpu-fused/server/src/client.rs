//! One client, from its first sample to the end of its connection.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::ws::{CloseCode, CloseFrame, Message, WebSocket, close_code};
use tidegate::{Detector, Event, FrontEnd};
use tidegate_fused::ServedStream;
use tokio::time::timeout;

use crate::metrics::End;
use crate::{Listener, Shared};

/// Serves a client until it leaves, or does what it may not.
pub async fn serve(shared: Arc<Shared>, mut socket: WebSocket, stream: ServedStream) {
    let mut stops = shared.stops.subscribe();
    let end = tokio::select! {
        end = hear(&shared, &mut socket, stream) => end,
        _ = stops.wait_for(|stops| *stops) => End::Stopped,
    };
    shared.metrics.ended(end);
    if let Some((code, reason)) = farewell(end) {
        let frame = CloseFrame { code, reason: reason.into() };
        // Whether it arrives does not matter.
        let _ = timeout(shared.limits.idle, socket.send(Message::Close(Some(frame)))).await;
    }
}

/// The code and the reason of a farewell; none if the client has left.
fn farewell(end: End) -> Option<(CloseCode, &'static str)> {
    Some(match end {
        End::Left | End::Gone => return None,
        End::Idle => (close_code::POLICY, "no sound came, or an event was not read, for too long"),
        End::Garbage => (close_code::UNSUPPORTED, "send binary messages of 16-bit samples, least byte first"),
        End::TooLong => (close_code::SIZE, "send shorter messages"),
        End::Failed => (close_code::ERROR, "the stream has failed"),
        End::Stopped => (close_code::AWAY, "the server stops"),
    })
}

/// Feeds the sound of a client to its stream, and sends the events.
async fn hear(shared: &Shared, socket: &mut WebSocket, mut stream: ServedStream) -> End {
    let Listener { model, mfcc, detector } = shared.listener;
    let (mut sound, mut means) = (vec![0; mfcc.memory_words()], vec![0; detector.memory_words()]);
    let (Ok(mut front_end), Ok(mut detector)) =
        (FrontEnd::new(&mfcc, &mut sound), Detector::new(&detector, &mut means))
    else {
        return End::Failed;
    };
    let (mut samples, mut heard) = (Vec::new(), 0_u64);
    loop {
        let bytes = match timeout(shared.limits.idle, message(socket)).await {
            Err(_) => return End::Idle,
            Ok(Err(end)) => return end,
            Ok(Ok(bytes)) => bytes,
        };
        let (pairs, []) = bytes.as_chunks::<2>() else { return End::Garbage };
        samples.clear();
        samples.extend(pairs.iter().map(|pair| i16::from_le_bytes(*pair)));
        let mut rest = samples.as_slice();
        while !rest.is_empty() {
            let taken = front_end.push(rest);
            rest = rest.get(taken..).unwrap_or_default();
            heard += taken as u64;
            while let Some(frame) = front_end.next() {
                let since = Instant::now();
                let stepped = stream.step(frame).await;
                shared.metrics.waited(since.elapsed());
                let now_ms = (heard * 1000 / u64::from(mfcc.settings().sample_rate)) as u32;
                let event = match stepped {
                    Ok(Some(posteriors)) => detector.push(posteriors, now_ms),
                    Ok(None) => continue,
                    Err(_) => return End::Failed,
                };
                let Ok(event) = event else { return End::Failed };
                let Some(Event { label, score, at_ms }) = event else { continue };
                shared.metrics.events.inc();
                let label = model.labels().nth(label).unwrap_or_default();
                let text = serde_json::json!({ "label": label, "at_ms": at_ms, "score": score }).to_string();
                match timeout(shared.limits.idle, socket.send(Message::Text(text.into()))).await {
                    Err(_) => return End::Idle,
                    Ok(Err(_)) => return End::Gone,
                    Ok(Ok(())) => {}
                }
            }
        }
    }
}

/// The next message with sound.
async fn message(socket: &mut WebSocket) -> Result<Bytes, End> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
            Some(Ok(Message::Text(_))) => return Err(End::Garbage),
            Some(Ok(Message::Close(_))) | None => return Err(End::Left),
            // They are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(error)) => {
                let is_long = error.to_string().contains("too long") || error.to_string().contains("too big");
                return Err(if is_long { End::TooLong } else { End::Gone });
            }
        }
    }
}
