//! Plays the recording: the timer interrupt puts it into a queue, as a microphone's DMA interrupt would.

use core::cell::RefCell;

use critical_section::Mutex;
use heapless::spsc::{Consumer, Producer, Queue};

use crate::arch::{end_interrupt, singleton, start_timer};
use crate::recording::{Block, Blocks, Clip};

static MICROPHONE: Mutex<RefCell<Option<Microphone>>> = Mutex::new(RefCell::new(None));

struct Microphone {
    blocks: Blocks,
    queue: Producer<'static, Block>,
    waiting: Option<Block>,
}

impl Microphone {
    /// Offers the next block. If the queue is full, the block is offered again at the next interrupt, so that the run
    /// is the same on a machine of any speed. A real microphone would lose the block.
    fn interrupt(&mut self) {
        if let Some(block) = self.waiting.take().or_else(|| self.blocks.next()) {
            self.waiting = self.queue.enqueue(block).err();
        }
    }
}

/// Starts the interrupts and returns the queue of the blocks of these clips. `None` if they were started before.
pub fn start(clips: &'static [Clip]) -> Option<Consumer<'static, Block>> {
    let (producer, consumer) = singleton!(: Queue<Block, 8> = Queue::new())?.split();
    let microphone = Microphone { blocks: Blocks::of(clips), queue: producer, waiting: None };
    critical_section::with(|token| {
        *MICROPHONE.borrow(token).try_borrow_mut().ok()? = Some(microphone);
        Some(())
    })?;
    start_timer()?;
    Some(consumer)
}

/// Must be called from the program's timer interrupt: `SysTick`, or `MachineTimer` on RISC-V.
pub fn interrupt() {
    end_interrupt();
    critical_section::with(|token| {
        if let Ok(mut microphone) = MICROPHONE.borrow(token).try_borrow_mut()
            && let Some(microphone) = microphone.as_mut()
        {
            microphone.interrupt();
        }
    });
}
