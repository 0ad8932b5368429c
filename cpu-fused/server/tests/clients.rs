//! Clients with real clips hear what one program alone hears, and the server ends in order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tidegate::{Aligned, Detector, FrontEnd, ImageBytes, Model, State};
use tidegate_model::data::read_audio_at;
use tidegate_server::{Limits, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};

pub type Socket = WebSocketStream<TcpStream>;

/// GRU_S with front end and detector in `i8x16`.
static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../firmware-examples/board/kws.tgi"));

/// A server that runs on a port of its own.
pub struct Running {
    pub server: Server,
    pub address: String,
    task: JoinHandle<std::io::Result<()>>,
}

impl Running {
    pub async fn start(limits: Limits) -> Self {
        let server = Server::new(&IMAGE.0, limits).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = server.clone();
        let task = tokio::spawn(async move { serving.serve(listener).await });
        Self { server, address, task }
    }

    pub async fn connect(&self) -> Socket {
        self.try_connect().await.expect("the server has a stream")
    }

    /// Connects as soon as the server has a stream: one leaves soon after its connection.
    pub async fn connect_when_free(&self) -> Socket {
        for _ in 0..100 {
            if let Ok(socket) = self.try_connect().await {
                return socket;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.connect().await
    }

    pub async fn try_connect(&self) -> Result<Socket, tokio_tungstenite::tungstenite::Error> {
        let socket = TcpStream::connect(&self.address).await.unwrap();
        Ok(client_async(format!("ws://{}/listen", self.address), socket).await?.0)
    }

    /// The answer to a request of HTTP.
    pub async fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Stops the server. All its tasks must end.
    pub async fn stop(self) {
        self.server.stop();
        tokio::time::timeout(Duration::from_secs(30), self.task).await.unwrap().unwrap().unwrap();
    }
}

/// The clips that the repository ships, and two words that it does not know.
pub fn clips() -> Vec<Vec<i16>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/speech_commands");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    paths.sort();
    assert!(paths.len() >= 20, "{} clips", paths.len());
    paths.iter().map(|path| read_audio_at(path, 16_000).unwrap().samples).collect()
}

/// The events that the core finds in a sound, in the form of the server's messages.
pub fn heard_alone(sound: &[i16]) -> Vec<Value> {
    let model = Model::parse(ImageBytes::from_aligned(IMAGE)).unwrap();
    let (mfcc, settings) = (model.front_end().unwrap(), model.detector().unwrap());
    let (mut words, mut scratch) = (vec![0; model.state_words()], vec![0; model.scratch_words()]);
    let (mut memory, mut means) = (vec![0; mfcc.memory_words()], vec![0; settings.memory_words()]);
    let mut front_end = FrontEnd::new(mfcc, &mut memory).unwrap();
    let mut state = State::new(&model, &mut words).unwrap();
    let mut detector = Detector::new(settings, &mut means).unwrap();
    let (mut events, mut posteriors, mut heard) = (Vec::new(), vec![0.0; model.output_size()], 0);
    let mut rest = sound;
    while !rest.is_empty() {
        let taken = front_end.push(rest);
        rest = &rest[taken..];
        heard += taken;
        while let Some(frame) = front_end.next() {
            if !model.step_f32(&mut state, &mut scratch, frame, &mut posteriors).unwrap().has_output() {
                continue;
            }
            if let Some(event) = detector.push(&posteriors, (heard * 1000 / 16_000) as u32).unwrap() {
                let label = model.labels().nth(event.label).unwrap();
                events.push(serde_json::json!({ "label": label, "at_ms": event.at_ms, "score": event.score }));
            }
        }
    }
    events
}

/// Sends a sound in blocks of these samples, and returns the events and the code of the end.
pub async fn sent(socket: Socket, sound: &[i16], block: usize) -> (Vec<Value>, Option<CloseCode>) {
    let (mut sink, source) = socket.split();
    let bytes: Vec<Vec<u8>> =
        sound.chunks(block).map(|block| block.iter().flat_map(|sample| sample.to_le_bytes()).collect()).collect();
    let sender = tokio::spawn(async move {
        for bytes in bytes {
            sink.send(Message::Binary(bytes.into())).await.unwrap();
        }
        sink.send(Message::Close(None)).await.unwrap();
    });
    let result = received(source).await;
    sender.await.unwrap();
    result
}

/// All events until the end.
pub async fn received(
    mut source: impl StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin,
) -> (Vec<Value>, Option<CloseCode>) {
    let mut events = Vec::new();
    while let Some(Ok(message)) = source.next().await {
        match message {
            Message::Text(text) => events.push(serde_json::from_str(&text).unwrap()),
            Message::Close(frame) => return (events, frame.map(|frame| frame.code)),
            _ => {}
        }
    }
    (events, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_clients_hear_what_one_program_alone_hears() {
    let running = Running::start(Limits::default()).await;
    let clips = clips();
    let mut clients = JoinSet::new();
    let mut events = 0;
    for client in 0..60 {
        // Three clips each, in an order and in blocks of its own.
        let sound: Vec<i16> = (0..3).flat_map(|k| clips[(7 * client + 5 * k) % clips.len()].clone()).collect();
        let socket = running.connect().await;
        clients.spawn(async move {
            let expected = heard_alone(&sound);
            let (found, _) = sent(socket, &sound, 160 + 97 * client).await;
            assert_eq!(found, expected, "client {client}");
            found.len()
        });
    }
    while let Some(found) = clients.join_next().await {
        events += found.unwrap();
    }
    assert!(events > 30, "the clips have words: {events} events");
    let metrics = running.get("/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    assert!(metrics.contains(&format!("tidegate_events_total {events}\n")), "{metrics}");
    assert!(metrics.contains("tidegate_ended_total{reason=\"Left\"} 60\n"), "{metrics}");
    let served: Vec<u64> = ["frames", "calls", "wait_seconds_count"]
        .map(|name| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("tidegate_{name} "))).unwrap();
            line.parse().unwrap()
        })
        .into();
    assert_eq!(served[0], served[2]);
    assert!(served[1] < served[0] / 2, "frames are stepped together: {served:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_says_goodbye() {
    let running = Running::start(Limits::default()).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut socket = running.connect().await;
        socket.send(Message::Binary(vec![0; 640].into())).await.unwrap();
        clients.push(tokio::spawn(async move { received(socket).await }));
    }
    assert!(running.get("/health").await.ends_with("ok"));
    running.stop().await;
    for client in clients {
        assert_eq!(client.await.unwrap(), (vec![], Some(CloseCode::Away)));
    }
}

#[test]
fn an_image_without_a_detector_is_refused() {
    let image = include_bytes!("../../examples/lstm.tgi");
    let error = Server::new(image, Limits::default()).err().expect("it is refused").to_string();
    assert!(error.contains("no front end") && error.lines().count() == 1, "{error}");
    let error = Server::new(&image[..100], Limits::default()).err().expect("it is refused").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
}
