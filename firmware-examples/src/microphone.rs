//! The recording, played by the timer interrupt into a queue, as a microphone's DMA interrupt would fill it.

use core::cell::RefCell;

use critical_section::Mutex;
use heapless::spsc::{Consumer, Producer, Queue};

use crate::arch::{end_interrupt, singleton, start_timer};
use crate::recording::{Block, Blocks};

static MICROPHONE: Mutex<RefCell<Option<Microphone>>> = Mutex::new(RefCell::new(None));

struct Microphone {
    blocks: Blocks,
    queue: Producer<'static, Block>,
    waiting: Option<Block>,
}

impl Microphone {
    /// A block that finds the queue full is offered again at the next interrupt, which makes the run repeatable
    /// on a machine of any speed: a real microphone would lose it.
    fn interrupt(&mut self) {
        if let Some(block) = self.waiting.take().or_else(|| self.blocks.next()) {
            self.waiting = self.queue.enqueue(block).err();
        }
    }
}

/// Starts the interrupts; the blocks come out of the queue. `None` if it was started before.
pub fn start() -> Option<Consumer<'static, Block>> {
    let (producer, consumer) = singleton!(: Queue<Block, 8> = Queue::new())?.split();
    let microphone = Microphone { blocks: Blocks::default(), queue: producer, waiting: None };
    critical_section::with(|token| {
        *MICROPHONE.borrow(token).try_borrow_mut().ok()? = Some(microphone);
        Some(())
    })?;
    start_timer()?;
    Some(consumer)
}

/// To be called from the program's timer interrupt: `SysTick`, or `MachineTimer` on RISC-V.
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
