//! [`PoolServer`]: a [`StreamPool`] on a thread of its own, which the tasks of a server step one frame at a time.

use core::fmt;
use core::mem;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::model::FusedModel;
use crate::pool::{PoolError, StreamId, StreamPool};

/// Limits of a [`PoolServer`]: how many streams it takes, and how long their frames wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of live streams.
    pub streams: usize,
    /// Largest number of streams that one call steps. It bounds the time of a call, and so the wait of a frame.
    pub batch: usize,
    /// Longest time that a frame waits for the frames of other streams.
    pub deadline: Duration,
}

impl Default for Limits {
    /// 4,096 streams, 256 in a call, and 2 ms.
    fn default() -> Self {
        Self { streams: 4096, batch: 256, deadline: Duration::from_millis(2) }
    }
}

/// Why a stream is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeError {
    /// The server has the largest number of streams.
    Full {
        /// The largest number of streams.
        streams: usize,
    },
    /// The frame has the wrong length.
    FrameLength {
        /// The length of an input of the model.
        needed: usize,
        /// The length of the frame.
        given: usize,
    },
    /// The thread of the server has ended.
    Ended,
    /// The pool has refused a call.
    Pool(PoolError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { streams } => write!(f, "all {streams} streams are taken: try again later"),
            Self::FrameLength { needed, given } => write!(f, "the frame has {given} values, the model takes {needed}"),
            Self::Ended => write!(f, "the thread of the streams has ended"),
            Self::Pool(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ServeError {}

/// A pool of streams on a thread of its own, for the tasks of a server. Clones are handles of the same pool, which ends with
/// the last handle and the last stream.
///
/// A call of the pool begins when every live stream has a frame, when [`Limits::batch`] streams have one, or when a frame
/// has waited for [`Limits::deadline`]. A frame therefore waits for at most the deadline, the rest of a running call, and
/// the calls for the frames before it.
///
/// Any executor will do. One thread computes: for more cores, start several servers.
///
/// ```
/// # use tidegate::{Aligned, ImageBytes, Model};
/// # use tidegate_fused::{FusedModel, Limits, PoolServer};
/// # static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../examples/lstm.tgi"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = Model::parse(ImageBytes::from_aligned(IMAGE))?;
/// let server = PoolServer::start(&FusedModel::new(&model), Limits::default())?;
/// // In the task of each client:
/// let mut stream = server.join().await?;
/// let frame = vec![0.5; model.input_size()];
/// if let Some(output) = stream.step(&frame).await? {
///     assert_eq!(output.len(), model.output_size());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PoolServer {
    requests: Sender<Request>,
    counts: Arc<Counts>,
    input_size: usize,
}

/// A stream of a [`PoolServer`]. It leaves when it is dropped.
#[derive(Debug)]
pub struct ServedStream {
    id: StreamId,
    server: PoolServer,
    row: Row,
}

/// Counts of a server at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Number of live streams.
    pub streams: usize,
    /// Number of frames.
    pub frames: u64,
    /// Number of calls of the pool.
    pub calls: u64,
    /// Time spent in these calls.
    pub busy: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    streams: AtomicUsize,
    frames: AtomicU64,
    calls: AtomicU64,
    busy_ns: AtomicU64,
}

/// A frame on its way to the pool, and the output on its way back.
#[derive(Debug, Default)]
struct Row {
    frame: Vec<f32>,
    output: Vec<f32>,
    has_output: bool,
}

#[derive(Debug)]
enum Request {
    Join(oneshot::Sender<Result<StreamId, ServeError>>),
    Leave(StreamId),
    Reset(StreamId),
    Step(Turn),
}

/// A stream that has a frame.
#[derive(Debug)]
struct Turn {
    id: StreamId,
    row: Row,
    since: Instant,
    reply: oneshot::Sender<Result<Row, ServeError>>,
}

impl PoolServer {
    /// Starts the thread of a pool.
    ///
    /// # Errors
    /// If the model does not have exactly one input and one output in floats (error kind
    /// [`InvalidInput`](io::ErrorKind::InvalidInput)), or the system does not start a thread.
    pub fn start(model: &FusedModel<'static>, limits: Limits) -> io::Result<Self> {
        let mut pool = StreamPool::new(model);
        pool.step(&[], &[], &mut []).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (requests, received) = channel();
        let counts = Arc::<Counts>::default();
        let worker = Worker { pool, limits, counts: counts.clone(), turns: VecDeque::new() };
        thread::Builder::new().name("tidegate streams".to_owned()).spawn(move || worker.run(&received))?;
        Ok(Self { requests, counts, input_size: model.model().input_size() })
    }

    /// Adds a stream in the zero state.
    ///
    /// # Errors
    /// If the server has the largest number of streams, or its thread has ended.
    pub async fn join(&self) -> Result<ServedStream, ServeError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Join(reply))?;
        let id = answer.await.map_err(|_| ServeError::Ended)??;
        Ok(ServedStream { id, server: self.clone(), row: Row::default() })
    }

    /// The counts of the server so far.
    pub fn served(&self) -> Served {
        let Counts { streams, frames, calls, busy_ns } = &*self.counts;
        let busy = Duration::from_nanos(busy_ns.load(Ordering::Relaxed));
        let [frames, calls] = [frames, calls].map(|count| count.load(Ordering::Relaxed));
        Served { streams: streams.load(Ordering::Relaxed), frames, calls, busy }
    }

    fn send(&self, request: Request) -> Result<(), ServeError> {
        self.requests.send(request).map_err(|_| ServeError::Ended)
    }
}

impl ServedStream {
    /// Steps the stream with a frame, `[input]`. Returns the output, `[output]`, if the step has one.
    ///
    /// If the future is dropped before it is ready, the stream may have taken the frame, and the output is lost.
    ///
    /// # Errors
    /// If the frame has the wrong length, or the thread of the server has ended.
    pub async fn step(&mut self, frame: &[f32]) -> Result<Option<&[f32]>, ServeError> {
        let (needed, given) = (self.server.input_size, frame.len());
        if needed != given {
            return Err(ServeError::FrameLength { needed, given });
        }
        let mut row = mem::take(&mut self.row);
        row.frame.clear();
        row.frame.extend_from_slice(frame);
        let (reply, answer) = oneshot::channel();
        self.server.send(Request::Step(Turn { id: self.id, row, since: Instant::now(), reply }))?;
        self.row = answer.await.map_err(|_| ServeError::Ended)??;
        Ok(self.row.has_output.then_some(&self.row.output))
    }

    /// Resets the state to zero.
    ///
    /// # Errors
    /// If the thread of the server has ended.
    pub fn reset(&mut self) -> Result<(), ServeError> {
        self.server.send(Request::Reset(self.id))
    }
}

impl Drop for ServedStream {
    fn drop(&mut self) {
        // If the thread has ended, the stream is gone as well.
        let _ = self.server.send(Request::Leave(self.id));
    }
}

/// The thread of a server.
struct Worker {
    pool: StreamPool<'static>,
    limits: Limits,
    counts: Arc<Counts>,
    /// The waiting frames, in the order of their arrival.
    turns: VecDeque<Turn>,
}

impl Worker {
    /// Serves until there are no handles.
    fn run(mut self, requests: &Receiver<Request>) {
        let (mut ready, mut frames, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let wait = self.turns.front().map(|turn| self.limits.deadline.saturating_sub(turn.since.elapsed()));
            let request = match wait {
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(_) if self.is_full() => requests.recv_timeout(Duration::ZERO),
                Some(wait) => requests.recv_timeout(wait),
            };
            match request {
                Ok(request) => self.take(request),
                Err(RecvTimeoutError::Timeout) => self.call(&mut ready, &mut frames, &mut outputs),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Whether nothing is gained from waiting for more frames.
    fn is_full(&self) -> bool {
        self.turns.len() >= self.limits.batch.min(self.pool.len())
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Join(reply) => {
                let streams = self.limits.streams;
                let joined =
                    if self.pool.len() < streams { Ok(self.pool.join()) } else { Err(ServeError::Full { streams }) };
                // If the task no longer waits for the answer, the stream leaves again.
                if let Err(Ok(id)) = reply.send(joined) {
                    let _ = self.pool.leave(id);
                }
            }
            Request::Leave(id) => {
                self.turns.retain(|turn| turn.id != id);
                let _ = self.pool.leave(id);
            }
            Request::Reset(id) => {
                let _ = self.pool.reset(id);
            }
            Request::Step(turn) => self.turns.push_back(turn),
        }
        self.counts.streams.store(self.pool.len(), Ordering::Relaxed);
    }

    /// Steps the streams that have waited longest. A stream whose task gave up an earlier frame can have two frames: one waits.
    fn call(&mut self, ready: &mut Vec<StreamId>, frames: &mut Vec<f32>, outputs: &mut Vec<f32>) {
        let start = Instant::now();
        let (mut chosen, mut rest) = (Vec::new(), VecDeque::new());
        ready.clear();
        frames.clear();
        for turn in self.turns.drain(..) {
            if ready.len() < self.limits.batch && !ready.contains(&turn.id) {
                ready.push(turn.id);
                frames.extend_from_slice(&turn.row.frame);
                chosen.push(turn);
            } else {
                rest.push_back(turn);
            }
        }
        self.turns = rest;
        let size = self.pool.model().model().output_size();
        outputs.clear();
        outputs.resize(ready.len() * size, 0.0);
        let done = self.pool.step(ready, frames, outputs);
        let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counts.busy_ns.fetch_add(elapsed, Ordering::Relaxed);
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.counts.frames.fetch_add(ready.len() as u64, Ordering::Relaxed);
        for (index, mut turn) in chosen.into_iter().enumerate() {
            let row = match &done {
                Ok(steps) => {
                    turn.row.has_output = steps.get(index).is_some_and(|step| step.has_output());
                    turn.row.output.clear();
                    turn.row
                        .output
                        .extend_from_slice(outputs.get(index * size..(index + 1) * size).unwrap_or_default());
                    Ok(turn.row)
                }
                Err(error) => Err(ServeError::Pool(*error)),
            };
            // A task that has abandoned its frame does not receive the row.
            let _ = turn.reply.send(row);
        }
    }
}
