//! An analog microphone (MAX9814, MAX4466 and the like) on a pin of the ADC. A timer triggers each conversion, DMA
//! fills one buffer while the other is read, and its interrupt puts blocks into a queue.

use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};

use critical_section::Mutex;
use heapless::spsc::{Consumer, Producer, Queue};
use stm32f4xx_hal::adc::Adc;
use stm32f4xx_hal::adc::config::{AdcConfig, Dma, ExternalTrigger, SampleTime, Sequence, TriggerMode};
use stm32f4xx_hal::dma::config::DmaConfig;
use stm32f4xx_hal::dma::{DMAError, PeripheralToMemory, Stream0, StreamsTuple, Transfer};
use stm32f4xx_hal::gpio::{Analog, PA0};
use stm32f4xx_hal::pac::{ADC1, DMA2, Interrupt, TIM2, interrupt, tim2::cr2::MMS};
use stm32f4xx_hal::prelude::*;
use stm32f4xx_hal::rcc::Rcc;
use stm32f4xx_hal::timer::{CounterHz, Timer};

use crate::arch;

/// Samples per second.
pub const SAMPLE_RATE: u32 = 16_000;
/// Samples of a block: 10 ms.
pub const BLOCK_LEN: usize = 160;
/// The samples of one transfer.
pub type Block = [i16; BLOCK_LEN];

/// A source of sound. A microphone with PDM or I2S is another implementation.
pub trait Microphone {
    /// The next block, if it is complete.
    ///
    /// # Errors
    /// If blocks were lost because they were not read in time.
    fn read(&mut self) -> Result<Option<Block>, Lost>;
}

/// Samples arrived faster than they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// The converter has 12 bits, a sample has 16.
const GAIN: i32 = 16;
/// The mean, which is the level of silence, is averaged over 2^10 samples: 64 ms.
const MEAN_BITS: u32 = 10;

type Buffer = &'static mut [u16; BLOCK_LEN];
type Conversions = Transfer<Stream0<DMA2>, 0, Adc<ADC1>, PeripheralToMemory, Buffer>;

static FILLING: Mutex<RefCell<Option<Filling>>> = Mutex::new(RefCell::new(None));
static LOST: AtomicBool = AtomicBool::new(false);

/// The data of the interrupt.
struct Filling {
    conversions: Conversions,
    /// The third buffer; DMA owns two.
    spare: Option<Buffer>,
    /// The mean, with [`MEAN_BITS`] fraction bits.
    mean: i32,
    blocks: Producer<'static, Block>,
}

impl Filling {
    fn interrupt(&mut self) {
        let Some(spare) = self.spare.take() else { return };
        match self.conversions.next_transfer(spare) {
            Ok((filled, _)) => {
                let block = filled.map(|raw| self.sample(raw));
                self.spare = Some(filled);
                if self.blocks.enqueue(block).is_err() {
                    LOST.store(true, Ordering::Relaxed);
                }
            }
            Err(DMAError::NotReady(spare) | DMAError::SmallBuffer(spare)) => self.spare = Some(spare),
            Err(DMAError::Overrun(spare)) => {
                LOST.store(true, Ordering::Relaxed);
                self.spare = Some(spare);
                self.conversions.start(|_| ());
            }
        }
    }

    fn sample(&mut self, raw: u16) -> i16 {
        let above = i32::from(raw) - (self.mean >> MEAN_BITS);
        self.mean += above;
        (GAIN * above).clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }
}

/// A microphone on the ADC.
pub struct Converted {
    blocks: Consumer<'static, Block>,
    /// The timer runs until this is dropped.
    _clock: CounterHz<TIM2>,
}

impl Microphone for Converted {
    fn read(&mut self) -> Result<Option<Block>, Lost> {
        if LOST.swap(false, Ordering::Relaxed) {
            // The remaining blocks are followed by a gap.
            while self.blocks.dequeue().is_some() {}
            return Err(Lost);
        }
        Ok(self.blocks.dequeue())
    }
}

/// Starts conversions of the pin. `None` if they were started before.
pub fn start(converter: ADC1, timer: TIM2, dma: DMA2, pin: PA0<Analog>, rcc: &mut Rcc) -> Option<Converted> {
    let config = AdcConfig::default()
        .dma(Dma::Continuous)
        .external_trigger(TriggerMode::RisingEdge, ExternalTrigger::Tim_2_trgo);
    let mut converter = Adc::new(converter, true, config, rcc);
    converter.configure_channel(&pin, Sequence::One, SampleTime::Cycles_144);
    let mut buffers = [
        cortex_m::singleton!(: [u16; BLOCK_LEN] = [0; BLOCK_LEN]),
        cortex_m::singleton!(: [u16; BLOCK_LEN] = [0; BLOCK_LEN]),
        cortex_m::singleton!(: [u16; BLOCK_LEN] = [0; BLOCK_LEN]),
    ]
    .into_iter()
    .flatten();
    let config = DmaConfig::default().transfer_complete_interrupt(true).memory_increment(true).double_buffer(true);
    let stream = StreamsTuple::new(dma, rcc).0;
    let mut conversions =
        Transfer::init_peripheral_to_memory(stream, converter, buffers.next()?, buffers.next(), config);
    conversions.start(|_| ());
    let (producer, blocks) = cortex_m::singleton!(: Queue<Block, 8> = Queue::new())?.split();
    let filling = Filling { conversions, spare: buffers.next(), mean: 2048 << MEAN_BITS, blocks: producer };
    critical_section::with(|token| FILLING.borrow(token).replace(Some(filling)));

    let mut clock = Timer::new(timer, rcc);
    clock.set_master_mode(MMS::Update);
    let mut clock = clock.counter_hz();
    clock.start(SAMPLE_RATE.Hz()).ok()?;
    arch::unmask(Interrupt::DMA2_STREAM0);
    Some(Converted { blocks, _clock: clock })
}

#[interrupt]
fn DMA2_STREAM0() {
    critical_section::with(|token| {
        if let Some(filling) = FILLING.borrow(token).borrow_mut().as_mut() {
            filling.interrupt();
        }
    });
}
