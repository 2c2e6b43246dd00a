//! What a run leaves in its home for the next one: what would break it or lead it past the house is gone or refused.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{Result, ensure};
use box_spec::{Agent, Provider};
use harness::files::{put, put_deep};
use harness::{BoxRun, Case, House, Need, case};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use standin::{Options, Real, StandIn};

use super::sessions::{BOTH, SOON, fake};
use crate::seeds;

pub(crate) const CASES: &[Case] = &[
    case("attack4::variables_that_a_run_left_for_the_next_codex_are_gone", variables).needs(STOCK),
    case("attack4::a_list_of_models_that_no_codex_takes_is_asked_for_anew", lists).needs(STOCK),
    case("attack4::only_a_plain_file_is_read_or_replaced", plain_files).needs(BOTH),
    case("attack4::a_hard_link_in_the_place_of_a_file_leads_nowhere", hard_links).needs(BOTH),
];

/// codex takes `.env` of its home for its environment: here the proxy, the trust and another address of the model.
fn variables() -> Result<()> {
    let (standin, house) = stock()?;
    let launch = BoxRun::new(&house, "one")?.agent("codex").isolated().prompt("hi <<sh:env>><<text:governed>>");
    let left = launch.session_folder().join("codex/.env");
    let text = "HTTPS_PROXY=http://127.0.0.1:1\nhttps_proxy=http://127.0.0.1:1\nSSL_CERT_FILE=/nowhere\nOPENAI_BASE_URL=http://127.0.0.1:1\nOPENAI_API_KEY=sk-planted\n";
    put_deep(&left, text.as_bytes(), 0o644)?;
    let ran = launch.run(SOON)?.expect_code(0)?;
    ensure!(ran.said(Agent::Codex)?.text == "governed" && !left.exists(), "{}", ran.text());
    let all: String = standin.model_calls().iter().map(|seen| seen.text()).collect();
    ensure!(all.contains("HTTPS_PROXY=http://127.0.0.1:") && !all.contains("sk-planted"), "{all}");
    // What it names may lie anywhere.
    symlink("/proc/self/environ", &left)?;
    launch.run(SOON)?.expect_code(0)?;
    ensure!(left.symlink_metadata().is_err(), "the link is there");
    Ok(())
}

fn lists() -> Result<()> {
    let (_standin, house) = stock()?;
    let launch = BoxRun::new(&house, "one")?.agent("codex").isolated().prompt("hi <<text:governed>>");
    launch.run(SOON)?.expect_code(0)?;
    let folder = launch.session_folder().join("codex");
    let lists: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("models-")))
        .collect();
    let [list] = lists.as_slice() else {
        anyhow::bail!("not one list: {lists:?}");
    };
    let good = std::fs::read(list)?;
    for bad in
        ["{\"a\":1}", "{\"models\":[]}", "{\"models\":{}}", "{\"models\":[{\"name\":\"x\"}]}", "{\"models\":[7]}"]
    {
        put(list, bad.as_bytes(), 0o600)?;
        launch.run(SOON)?.expect_code(0)?;
        ensure!(std::fs::read(list)? == good, "{bad} was kept");
    }
    Ok(())
}

fn plain_files() -> Result<()> {
    let house = seeds::house()?;
    type Put = fn(&Path) -> Result<()>;
    let kinds: [(&str, Put); 3] = [
        ("a folder", |path| Ok(std::fs::create_dir(path)?)),
        ("a pipe", |path| Ok(mkfifo(path, Mode::S_IRWXU)?)),
        ("a socket", |path| {
            drop(UnixListener::bind(path)?);
            Ok(())
        }),
    ];
    let in_home = seeds::WRITTEN.into_iter().chain(seeds::READ).map(|(agent, name)| (agent, format!("{agent}/{name}")));
    let others = [(Agent::Codex, "trust/ca.pem"), (Agent::Pi, "pi/boxgate-system.md"), (Agent::Pi, "trust/bundle.pem")];
    for (agent, name) in in_home.chain(others.map(|(agent, name)| (agent, name.to_owned()))) {
        for (kind, place) in kinds {
            let launch = seeds::launch(&house, agent)?.option("--system").option("be kind");
            let path = launch.session_folder().join(&name);
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            place(&path)?;
            let ran = launch.agents(fake(agent, "echo started")?.folder()).run(SOON)?.expect_code(73)?;
            ensure!(ran.stdout.is_empty() && ran.stderr.contains(&name), "{kind} as {name}: {}", ran.stderr);
        }
    }
    Ok(())
}

fn hard_links() -> Result<()> {
    let house = seeds::house()?;
    for (agent, name) in seeds::WRITTEN {
        let (launch, home) = seeds::homed(&house, agent)?;
        let victim = launch.workspace_folder().join("victim");
        put(&victim, b"", 0o644)?;
        std::fs::hard_link(&victim, home.join(name))?;
        launch.clone().agents(fake(agent, "exit 0")?.folder()).run(SOON)?.expect_code(0)?;
        ensure!(std::fs::read(&victim)?.is_empty(), "{agent}: {name} was written through");
        ensure!(!std::fs::read(home.join(name))?.is_empty(), "{agent}: {name} was not written");
    }
    Ok(())
}

/// A house with a ChatGPT login, for the stock codex.
fn stock() -> Result<(StandIn, House)> {
    let real = Real::chatgpt("account-of-the-poisoned", "REAL-login-of-the-poisoned");
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = House::builder().agent("codex").serve(&standin, Provider::OpenaiCodex, real).start()?;
    Ok((standin, house))
}

const STOCK: &[Need] = &[Need::Gateway, Need::Boxd, Need::Codex, Need::Namespaces];
