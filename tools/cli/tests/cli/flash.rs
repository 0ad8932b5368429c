//! `flash` and a device at the end of a line.

use std::os::unix::net::UnixListener;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tidegate::internals::write::seal;

use super::board::{Faults, attach, listen};
use super::{Workplace, gru_pb};

const ON: Faults = Faults { off_after: None, lost: &[] };

/// A folder with a key and images: counters 1 and 2, the second with another network.
fn place() -> Workplace {
    let here = Workplace::new();
    here.succeed(&["keygen", "key.pem"]);
    for (image, counter, of) in [("first.tgi", "1", "f16"), ("next.tgi", "2", "f32")] {
        here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", of, "--self-test"]);
        here.succeed(&["sign", "g.tgi", "--key", "key.pem", "--counter", counter, "-o", image]);
    }
    here
}

fn flash<'a>(image: &'a str, port: &'a str) -> [&'a str; 6] {
    ["flash", image, "--port", port, "--timeout", "20"]
}

#[test]
fn a_device_takes_signed_updates_and_refuses_others() {
    let here = place();
    listen(&here, &[Faults { off_after: None, lost: &[3, 20] }, ON, ON, ON]);
    let told = here.succeed(&flash("first.tgi", "board.sock"));
    assert!(told.starts_with("erased\nfirst.tgi: ") && told.ends_with(", confirmed, counter 1\n"), "{told}");
    let mut forged = here.read("next.tgi");
    let last = forged.len() - 1;
    forged[last] ^= 1;
    seal(&mut forged);
    here.write("forged.tgi", &forged);
    let args = [&flash("forged.tgi", "board.sock")[..], &["--json"]].concat();
    here.refuse(&args, "board.sock", &["refuses the image", "damaged or forged"]);
    let found = here.json(&[&flash("next.tgi", "board.sock")[..], &["--json"]].concat());
    assert_eq!((&found["counter"], &found["confirmed"]), (&2.into(), &true.into()), "{found}");
    assert_eq!(found["notes"], serde_json::json!(["erased"]));
    let args = [&flash("first.tgi", "board.sock")[..], &["--json"]].concat();
    here.refuse(&args, "board.sock", &["security counter 1, but at least 2"]);
}

#[test]
fn a_transfer_goes_on_where_it_stopped() {
    const OFF: Faults = Faults { off_after: Some(500), lost: &[] };
    let here = place();
    listen(&here, &[OFF, ON, OFF, ON]);
    let flash = |image| [&flash(image, "board.sock")[..], &["--json"]].concat();
    here.refuse(&flash("first.tgi"), "board.sock", &["line was closed", "try again"]);
    // 498 blocks of 128 bytes; the page that was written last is received again.
    assert_eq!(here.json(&flash("first.tgi"))["resumed_at"], 498 * 128 / 1024 * 1024);
    here.refuse(&flash("first.tgi"), "board.sock", &["line was closed"]);
    let found = here.json(&flash("next.tgi"));
    assert_eq!((&found["resumed_at"], &found["counter"]), (&0.into(), &2.into()), "another image begins anew");
}

#[test]
fn a_serial_port_is_used_as_it_is() {
    let here = place();
    let board = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&board).unwrap();
    unlockpt(&board).unwrap();
    let port = ptsname(&board, Vec::new()).unwrap().into_string().unwrap();
    attach(&here, board.into());
    let found = here.json(&[&flash("first.tgi", &port)[..], &["--json"]].concat());
    assert_eq!((&found["counter"], &found["port"]), (&1.into(), &port.as_str().into()), "{found}");
}

#[test]
fn a_line_without_a_device_is_an_error() {
    let here = place();
    here.refuse(&flash("g.tgi", "board.sock"), "g.tgi", &["not signed", "tidegate sign"]);
    here.refuse(&flash("key.pem", "board.sock"), "key.pem", &[]);
    here.refuse(&flash("first.tgi", "board.sock"), "board.sock", &["no such port", "--port"]);
    here.refuse(&flash("first.tgi", "g.tgi"), "g.tgi", &["neither a serial port nor a socket"]);
    let listener = UnixListener::bind(here.path("deaf.sock")).unwrap();
    let args = ["flash", "first.tgi", "--port", "deaf.sock", "--timeout", "1"];
    here.refuse(&args, "deaf.sock", &["has not answered for 1 s", "baud rate"]);
    drop(listener);
    here.refuse(&args, "deaf.sock", &["nobody listens"]);
}
