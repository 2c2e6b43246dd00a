//! Bodies that are packed, as codex, pi and the providers pack them: passed as they are. Where a credential is put in, the answer
//! is asked for unpacked, so that it can be looked through.

use anyhow::{Result, ensure};
use harness::{Case, case};
use standin::{Fault, Packing, Rule};

use super::base::{GATEWAY, Wire, only};

pub(super) const CASES: &[Case] = &[case("wire::packed_bodies_pass_untouched", untouched).needs(GATEWAY)];

fn untouched() -> Result<()> {
    let wire = Wire::start()?;
    for host in ["api.test", "open.test"] {
        for packing in [Packing::Zstd, Packing::Gzip, Packing::Brotli] {
            wire.standin.forget();
            let name = packing.name();
            let (question, answer) = (packing.pack(&text("question")), packing.pack(&text("answer")));
            let injected = host == "api.test";
            let (answer, coding) = if injected { (text("answer"), "identity") } else { (answer, name) };
            let headers = vec![("content-encoding".to_owned(), coding.to_owned())];
            let fault = Fault::Status { status: 200, headers, body: answer.clone() };
            wire.standin.rules(vec![Rule::new("", fault)]);
            let head = format!(
                "POST /packed HTTP/1.1\r\nHost: {host}\r\nContent-Encoding: {name}\r\nAccept-Encoding: {name}\r\nContent-Length: {}\r\n\r\n",
                question.len()
            );
            let came = wire.inside(host)?.ask(&[head.as_bytes(), &question].concat())?;
            ensure!(came.header("content-encoding") == Some(coding), "{host} {name}: {:?}", came.headers);
            ensure!(came.body == answer && came.complete, "{host} {name}: another answer came");
            let seen = only(&wire.standin)?;
            ensure!(seen.body == question && seen.complete, "{host} {name}: another question came");
            for (header, value) in [("content-encoding", name), ("accept-encoding", coding)] {
                ensure!(seen.header(header) == [value], "{host} {name}: {:?}", seen.headers);
            }
        }
    }
    Ok(())
}

/// Longer than one piece on any leg.
fn text(what: &str) -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| format!("{what} {}, ", number * number).into_bytes()).collect()
}
