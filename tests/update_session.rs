//! The protocol of updates over a line: frames, and the device's end of it.

use crate::device::{Device, digest_of, image, off};
use crate::flash::Log;
use tidegate_update::wire::{About, Answer, BLOCK_BYTES, Request, VERSION};
use tidegate_update::{Boot, FRAME_BYTES, Frames, Phase, Session};

/// The bodies of the frames in the bytes of a line.
fn bodies(line: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Frames::new();
    line.iter().filter_map(|&byte| frames.push(byte).map(<[u8]>::to_vec)).collect()
}

#[test]
fn a_frame_is_found_whole_or_not_at_all() {
    let bytes: [u8; BLOCK_BYTES] = std::array::from_fn(|index| (index / 3 * 85) as u8);
    let request = Request::Block { at: 70_000, bytes: &bytes };
    let mut frame = [0; FRAME_BYTES];
    let sent = request.encode(200, &mut frame).to_vec();
    let found = bodies(&sent);
    assert_eq!(found.iter().map(|body| Request::decode(body)).collect::<Vec<_>>(), [Some((200, request))]);
    for bit in 0..8 * sent.len() {
        let mut damaged = sent.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found_after = bodies(&[&damaged[..], &sent].concat());
        // A zero that begins or ends a frame is not a part of it.
        let inside = (8..8 * (sent.len() - 1)).contains(&bit);
        assert!(!inside || found_after.len() == 1, "bit {bit}: only the frame after the damaged one is whole");
        assert!(found_after.iter().all(|body| *body == found[0]), "bit {bit}");
    }
    // The zero that begins a frame also ends the one before.
    for len in 0..sent.len() - 1 {
        assert!(bodies(&sent[..len]).is_empty(), "{len} bytes");
        assert_eq!(bodies(&[&sent[..len], &sent].concat()), found, "{len} bytes, then the frame");
    }
    assert!(Request::Block { at: 0, bytes: &[0; BLOCK_BYTES + 1] }.encode(1, &mut frame).is_empty());
}

#[test]
fn a_session_takes_an_image_and_repeats_answers() {
    let (old, new) = (image(2000, 1), image(5000, 2));
    let log = Log::default();
    let mut slots = Device::<8, 1024>::new(8 << 10, &log).flashed(&old).open().unwrap();
    let boot = slots.boot();
    let (active, updater) = slots.split();
    let active = active.unwrap();
    let mut session = Session::new(updater, Some(&active), boot);
    let mut ask = |number, request| session.answer(number, request);
    let model = active.model().id().0;
    let about = About { version: VERSION, boot: Boot::Confirmed, phase: Phase::Idle, counter: 1, model, bank: 8 << 10 };
    assert_eq!(ask(1, Request::Hello), Answer::About(about));
    let refused = |answer, reason: &str| match answer {
        Answer::Refused(refusal) => assert!(refusal.to_string().contains(reason), "{refusal}"),
        answer => panic!("{answer:?}"),
    };
    let len = new.len() as u32;
    for request in [Request::Resume, Request::Finish, Request::Block { at: 0, bytes: &[1] }] {
        refused(ask(2, request), "no image is being received");
    }
    refused(ask(3, Request::Run), "no image is pending");
    refused(ask(4, Request::Begin { len: 9000 }), "9000 bytes does not fit its bank of 8192");
    assert_eq!(ask(5, Request::Begin { len }), Answer::Received { len, received: 0, digest: digest_of(&[]) });
    let operations = log.count();
    let block = Request::Block { at: 0, bytes: &new[..100] };
    assert_eq!(ask(6, block), Answer::Taken { received: 100 });
    assert_eq!(ask(6, block), Answer::Taken { received: 100 }, "the repetition of a request whose answer was lost");
    refused(ask(7, block), "expects byte 100, but got byte 0");
    refused(ask(8, Request::Finish), "received 100 of");
    let resumed = Answer::Received { len, received: 100, digest: digest_of(&new[..100]) };
    assert_eq!((ask(9, Request::Resume), log.count()), (resumed, operations), "the session goes on at the byte");
    for (number, bytes) in (10..).zip(new[100..].chunks(BLOCK_BYTES)) {
        let at = 100 + BLOCK_BYTES as u32 * (u32::from(number) - 10);
        assert_eq!(ask(number, Request::Block { at, bytes }), Answer::Taken { received: at + bytes.len() as u32 });
    }
    assert_eq!([ask(90, Request::Finish), ask(90, Request::Finish)], [Answer::Done; 2]);
    assert_eq!(ask(91, Request::Hello), Answer::About(About { phase: Phase::Pending, ..about }));
    // Hello begins the numbers anew.
    refused(ask(90, Request::Finish), "no image is being received");
    assert_eq!(ask(92, Request::Run), Answer::Done);
    slots.switch().unwrap();
    assert_eq!(crate::device::running(&mut slots).1, new);
    assert_eq!(off(slots).open().unwrap().boot(), Boot::Reverted, "nobody has confirmed it");
}
