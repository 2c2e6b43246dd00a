//! Beside an agent that takes every connection of the shim.

use anyhow::{Context, Result, ensure};
use harness::{process, until};

use super::{Here, SOON, house};

/// The shim turns away what is one too many, and says whose it is all the same.
pub(super) fn full() -> Result<()> {
    let house = house()?;
    let here = Here::new(&house)?;
    let agent = here.agent(&format!("python3 -c '{HOG}' &"))?;
    let joined = process::start(here.exec(&["sh", "-c", "touch hog; sleep 7; echo still here"]), None)?;
    let taken = here.launch.workspace_folder().join("taken");
    until("the agent's connections", SOON, || taken.exists().then_some(())).with_context(|| joined.stderr())?;
    let late = process::run(here.exec(&["echo", "joined too"]), None, SOON)?.expect_code(0)?;
    let joined = joined.wait(SOON)?.expect_code(0)?;
    ensure!(late.text() == "joined too\n" && joined.text() == "still here\n", "{} {}", late.text(), joined.text());
    ensure!(here.read("taken")? == "full", "the shim took one more: {}", here.read("taken")?);
    here.let_go(agent)?.expect_code(0)?;
    let claims = house.ledger()?.iter().filter(|line| line["kind"] == "claim").count();
    ensure!(claims == 1, "{claims} claims");
    Ok(())
}

/// Takes more connections than the shim has, and keeps them; what a shim says to one more is written down.
const HOG: &str = r#"
import os, resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
shim = ("127.0.0.1", int(os.environ["HTTPS_PROXY"].rsplit(":", 1)[1]))
while not os.path.exists("hog"): time.sleep(0.05)
held = [socket.create_connection(shim) for _ in range(600)]
one_more = socket.create_connection(shim)
one_more.settimeout(5)
said = one_more.recv(4096)
with open("taken.new", "w") as file: file.write("full" if said.startswith(b"HTTP/1.1 503 ") else repr(said))
os.rename("taken.new", "taken")
time.sleep(8)
"#;
