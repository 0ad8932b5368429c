//! `keygen`, `sign`, `verify-signature` and `change-key`, held against openssl; `pack --self-test`.

use std::process::Command;

use super::{Workplace, gru_pb};

/// A folder with a key and an image.
fn place() -> Workplace {
    let here = Workplace::new();
    here.succeed(&["pack", &gru_pb(), "-o", "g.tgi", "--numeric", "f16"]);
    here.succeed(&["keygen", "key.pem"]);
    here
}

/// Runs openssl; `None` if the machine has none.
fn openssl(here: &Workplace, args: &[&str]) -> Option<Vec<u8>> {
    match Command::new("openssl").args(args).current_dir(here.path("")).output() {
        Ok(done) => {
            assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
            Some(done.stdout)
        }
        Err(error) => {
            println!("SKIP openssl {args:?}: {error}");
            None
        }
    }
}

#[test]
fn a_key_is_readable_by_its_owner_alone_and_by_openssl() {
    let here = place();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(here.path("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(here.names(), ["g.tgi", "key.pem", "key.pub.pem"]);
    let Some(public) = openssl(&here, &["pkey", "-in", "key.pem", "-pubout"]) else { return };
    assert_eq!(String::from_utf8(public).unwrap(), String::from_utf8(here.read("key.pub.pem")).unwrap());
    // A key of openssl signs too.
    openssl(&here, &["genpkey", "-algorithm", "ed25519", "-out", "other.pem"]);
    openssl(&here, &["pkey", "-in", "other.pem", "-pubout", "-out", "other.pub.pem"]);
    here.succeed(&["sign", "g.tgi", "--key", "other.pem", "-o", "s.tgi"]);
    here.succeed(&["verify-signature", "s.tgi", "--key", "other.pub.pem"]);
    here.refuse(&["verify-signature", "s.tgi", "--key", "key.pub.pem"], "s.tgi", &["unknown key"]);
}

#[test]
fn a_signature_is_that_of_openssl_and_can_be_attached() {
    let here = place();
    let with = ["sign", "g.tgi", "--counter", "3", "--product", "000102030405060708090a0b0c0d0e0f"];
    here.succeed(&[&with[..], &["--key", "key.pem", "-o", "s.tgi"]].concat());
    here.succeed(&[&with[..], &["--key", "key.pub.pem", "--digest", "g.msg"]].concat());
    let signed = here.read("s.tgi");
    here.write("own.sig", &signed[signed.len() - 64..]);
    here.succeed(&[&with[..], &["--key", "key.pub.pem", "--attach", "own.sig", "-o", "a.tgi"]].concat());
    assert!(here.read("a.tgi") == signed);
    here.refuse(
        &["sign", "g.tgi", "--key", "key.pub.pem", "--attach", "own.sig", "-o", "b.tgi"],
        "own.sig",
        &["not that of this image", "--counter"],
    );
    let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "g.msg", "-out", "g.sig"];
    if openssl(&here, &sign).is_some() {
        assert_eq!(here.read("g.sig"), signed[signed.len() - 64..]);
        let verify = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "key.pub.pem", "-in", "g.msg", "-sigfile"];
        openssl(&here, &[&verify[..], &["own.sig"]].concat());
    }
}

#[test]
fn a_signed_image_is_inspected_verified_and_run_as_before() {
    let here = place();
    here.succeed(&["sign", "g.tgi", "--key", "key.pem", "--counter", "3", "-o", "s.tgi"]);
    let text = here.succeed(&["inspect", "s.tgi"]);
    let line = text.lines().find(|line| line.starts_with("  signed   ")).expect("the signer is shown");
    assert!(line.contains("counter 3") && line.contains("not verified"), "{line}");
    let [bare, signed] = ["g.tgi", "s.tgi"].map(|image| here.json(&["inspect", image, "--json"]));
    assert_eq!((&bare["signature"], &bare["signed"]), (&serde_json::Value::Null, &false.into()));
    assert_eq!((&signed["signature"]["counter"], &signed["signed"]), (&3.into(), &true.into()));
    assert_eq!(bare["model_id"], signed["model_id"]);
    let found = here.json(&["verify-signature", "s.tgi", "--key", "key.pub.pem", "--min-counter", "3", "--json"]);
    assert_eq!(found["key"], signed["signature"]["key"]);
    // In place, with another counter.
    here.succeed(&["sign", "s.tgi", "--key", "key.pem", "--counter", "4", "-o", "s.tgi"]);
    here.refuse(&["verify-signature", "s.tgi", "--key", "key.pub.pem", "--min-counter", "5"], "s.tgi", &["counter 4"]);
    let mut damaged = here.read("s.tgi");
    damaged[5000] ^= 1;
    here.write("d.tgi", damaged);
    here.refuse(&["verify-signature", "d.tgi", "--key", "key.pub.pem"], "d.tgi", &["damaged or forged"]);
}

#[test]
fn a_key_change_is_signed_by_the_root_key_as_openssl_signs() {
    let here = place();
    here.succeed(&["keygen", "root.pem"]);
    let product = "000102030405060708090a0b0c0d0e0f";
    let with = ["--root", "root.pem", "--serial", "7", "--product", product, "-o", "change.tgk"];
    here.succeed(&[&["change-key", "key.pub.pem"][..], &with].concat());
    let record = here.read("change.tgk");
    let public = tidegate_model::sign::public_from_pem(&String::from_utf8(here.read("root.pub.pem")).unwrap()).unwrap();
    let change = tidegate_update::KeyChange::parse(&record).unwrap();
    assert_eq!((change.serial(), change.product()[15]), (7, 15));
    let keys = tidegate_update::Keys::new(public.as_bytes(), change.product()).unwrap();
    assert!(keys.change(&change).is_ok());
    let (message, signature) = record.split_at(64);
    here.write("change.msg", message);
    here.write("change.sig", signature);
    let verify = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "root.pub.pem", "-in", "change.msg", "-sigfile"];
    openssl(&here, &[&verify[..], &["change.sig"]].concat());
    let root = ["change-key", "root.pub.pem", "--root", "root.pem", "--serial", "1", "-o", "x.tgk"];
    here.refuse(&root, "root.pub.pem", &["is the root key"]);
    let public = ["change-key", "key.pub.pem", "--root", "root.pub.pem", "--serial", "1", "-o", "x.tgk"];
    here.refuse(&public, "root.pub.pem", &["is a public key: give the private root key"]);
}

#[test]
fn a_packed_self_test_is_inspected_and_signed_and_needs_one_input() {
    let here = place();
    here.succeed(&["pack", &gru_pb(), "-o", "t.tgi", "--numeric", "f16", "--self-test"]);
    here.succeed(&["sign", "t.tgi", "--key", "key.pem", "-o", "s.tgi"]);
    let [bare, tested] = ["g.tgi", "s.tgi"].map(|image| here.json(&["inspect", image, "--json"]));
    assert_eq!(bare["self_test"], serde_json::Value::Null);
    assert_eq!(tested["self_test"], serde_json::json!({ "steps": 25, "outputs": 1 }));
    assert_eq!(bare["model_id"], tested["model_id"]);
    let text = here.succeed(&["inspect", "s.tgi"]);
    assert!(text.contains("  tests    itself in 25 steps, 1 of them with an output"), "{text}");
    // Another signature leaves the test.
    here.succeed(&["sign", "s.tgi", "--key", "key.pem", "--counter", "4", "-o", "s.tgi"]);
    assert_eq!(here.json(&["inspect", "s.tgi", "--json"])["self_test"], tested["self_test"]);
}
