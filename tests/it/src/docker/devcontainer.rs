//! The compose file of docs/devcontainer.md, as it stands there, beside the house: its run, and a terminal that joins it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, Tools, case, files, until};

use super::{House, NEEDS};

pub(crate) const CASES: &[Case] =
    &[case("docker::devcontainer::a_dev_container_is_a_box_and_its_terminals_join_the_run", dev).needs(NEEDS).alone()];

fn dev() -> Result<()> {
    let house = House::open()?;
    let engine = house.engine;
    let page = std::fs::read_to_string(Tools::workspace().join("docs/devcontainer.md")).context("read the page")?;
    let (_, yaml) = page.split_once("```yaml\n").context("find the compose file")?;
    let (yaml, _) = yaml.split_once("```").context("find its end")?;
    // The house's project has another name here, and the image of the boxes is the one that there is.
    let mut text = yaml.to_owned();
    for (from, to) in [
        ("my-dev-image:latest", "localhost/boxgate/box:0.1.0"),
        ("name: boxgate_boxd", "name: house_boxd"),
        ("name: boxgate_door-claude", "name: house_door-claude"),
    ] {
        ensure!(text.contains(from), "the page does not have {from}");
        text = text.replace(from, to);
    }
    // A project of its own: what is in the workspace, the box can read.
    let folder = engine.project().with_file_name("dev").join(".devcontainer");
    let file = folder.join("compose.yaml");
    files::put_deep(&file, text.as_bytes(), 0o644)?;
    files::put(&folder.join(".env"), format!("HOUSE={}\n", engine.project().display()).as_bytes(), 0o644)?;
    files::give(&engine.project().with_file_name("dev"), 1000)?;
    std::fs::create_dir_all(engine.project().join("box/runs/dev")).context("make the session's folder")?;
    files::give(&engine.project().join("box/runs/dev"), 1000)?;
    let at = file.to_str().context("a path in UTF-8")?;
    let compose = |arguments: &[&str]| {
        let mut command = engine.compose(&[&["-p", "dev", "-f", at][..], arguments].concat());
        command.current_dir(&folder);
        engine.must(command)
    };
    compose(&["up", "-d"])?;
    let seen = || -> Result<()> {
        let joined = || compose(&["exec", "-T", "dev", "/boxgate/boxd", "exec", "--", "sh", "-c", LOOK]).ok();
        let told = until("a terminal that joins", Duration::from_secs(60), joined)?.text();
        let status = engine.must(engine.compose(&["exec", "-T", "gateway", "gateway", "status"]))?.text();
        let run = told.lines().find_map(|line| line.strip_prefix("run ")).with_context(|| format!("it saw {told}"))?;
        ensure!(status.contains(&format!("run {run} since")), "the house knows no run {run}: {status}");
        ensure!(told.contains("proxy http://127.0.0.1:3128") && told.contains("interfaces lo"), "it saw {told}");
        Ok(())
    };
    let seen = seen();
    let logs = compose(&["logs", "--no-color"]).map(|ran| ran.text()).unwrap_or_default();
    compose(&["down"])?;
    seen.with_context(|| logs)
}

/// For a shell: what it has of the house, and its interfaces.
pub(super) const LOOK: &str =
    "echo run $BOXGATE_RUN; echo proxy $HTTPS_PROXY; echo interfaces $(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)";
