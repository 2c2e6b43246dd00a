//! What people do wrong with `compose.yaml`, and what they are told: each is an error that names its fix.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::{Case, Generation, case, files, process};
use standin::Real;

use super::{House, LOGIN, MINUTES, NEEDS, network};

pub(crate) const CASES: &[Case] = &[
    case("docker::mistakes::a_key_that_is_wrong_or_broken_names_its_fix", keys).needs(NEEDS).alone(),
    case("docker::mistakes::a_workspace_of_somebody_else_names_its_fix", workspace).needs(NEEDS).alone(),
    case("docker::mistakes::a_workspace_that_the_house_lies_in_is_refused", workspace_with_the_house)
        .needs(NEEDS)
        .alone(),
    case("docker::mistakes::another_user_takes_over_what_the_first_one_had", another_user).needs(NEEDS).alone(),
    case("docker::mistakes::two_prompts_at_once_are_told_who_was_first", two_prompts).needs(NEEDS).alone(),
    case("docker::mistakes::a_secret_in_the_environment_of_a_box_is_named_and_ends_the_launch", environment)
        .needs(NEEDS)
        .alone(),
    case("docker::mistakes::an_address_that_is_taken_names_its_fix", taken).needs(NEEDS).alone(),
    case("docker::mistakes::an_engine_that_is_too_old_for_isolated_networks_is_found_by_the_box", too_old)
        .needs(NEEDS)
        .alone(),
    case("docker::mistakes::an_api_key_needs_no_edit", api_key).needs(NEEDS).alone(),
    case("docker::mistakes::a_hosts_login_needs_one_line", hosts_login).needs(NEEDS).alone(),
    case("docker::mistakes::the_house_gets_a_login_of_its_own", login).needs(NEEDS).alone(),
];

fn keys() -> Result<()> {
    let house = House::open()?;
    let file = house.engine.project().join("box/secrets/anthropic");
    let status = || -> Result<String> {
        let exec = ["exec", "-T", "gateway", "gateway", "status"];
        Ok(house.engine.must(house.engine.compose(&exec))?.text())
    };
    let told = || -> Result<()> {
        // The provider does not take it: told as an outage of the house, and what to do.
        replace(&file, "sk-ant-oat01-a-login-that-nobody-gave")?;
        let ran = house.engine.start_run(&["claude", "--output", "text", "hi"])?.wait(MINUTES)?;
        let said = format!("{}{}", ran.text(), ran.stderr);
        ensure!(ran.code.is_some_and(|code| code != 0), "a wrong key ended with {:?}", ran.code);
        ensure!(said.contains("renew the credential") && said.contains("gateway status"), "a wrong key: {said}");
        // A key with a newline in it is none, and is not sent.
        house.standin.forget();
        replace(&file, "sk-ant-oat01-a-login\nin-two-lines\n")?;
        let ran = house.engine.start_run(&["claude", "hi"])?.wait(MINUTES)?.expect_code(78)?;
        ensure!(ran.stderr.contains("no credential"), "a key with a newline: {}", ran.stderr);
        let status = status()?;
        let names = status.contains("/secrets/anthropic") && status.contains("control character or a space inside");
        ensure!(names && !status.contains("in-two-lines"), "the status of a key with a newline: {status}");
        ensure!(house.standin.model_calls().is_empty(), "half a key was sent");
        Ok(())
    };
    let told = told();
    replace(&file, LOGIN)?;
    told?;
    // One newline at the end is an editor's, and no fault.
    replace(&file, &format!("{LOGIN}\n"))?;
    house.engine.start_run(&["claude", "hi"])?.wait(MINUTES)?.expect_code(0).map(drop)
}

fn workspace() -> Result<()> {
    let house = House::open()?;
    let folder = house.engine.project().join("box/of-root");
    files::put_deep(&folder.join("mine"), b"mine", 0o644)?;
    let mut run = house.engine.compose(&["run", "--rm", "-T", "claude", "<<text:I was here>>"]);
    run.env("WORKSPACE", "./box/of-root");
    let ran = process::run(run, None, MINUTES)?;
    for part in ["/workspace cannot be written by user 1000", "belongs to user 0", "BOXGATE_UID"] {
        ensure!(ran.stderr.contains(part), "{part} is not in: {}", ran.stderr);
    }
    ensure!(std::fs::read(folder.join("mine")).is_ok_and(|text| text == b"mine"), "the folder was touched");
    Ok(())
}

/// Where the agent could read the secrets, and change the rules.
fn workspace_with_the_house() -> Result<()> {
    let house = House::open()?;
    house.standin.forget();
    for (workspace, folder) in [(".", "/workspace/box:"), ("./box", "/workspace:"), ("..", "/workspace/project/box:")] {
        let mut run = house.engine.compose(&["run", "--rm", "-T", "claude", "hi"]);
        run.env("WORKSPACE", workspace);
        let ran = process::run(run, None, MINUTES)?.expect_code(77)?;
        for part in ["holds the folder of the house", folder, "WORKSPACE"] {
            ensure!(ran.stderr.contains(part), "{workspace}: {part} is not in: {}", ran.stderr);
        }
    }
    ensure!(house.standin.model_calls().is_empty(), "an agent was started");
    Ok(())
}

/// `BOXGATE_UID` after a first start without it: state, door and homes go with it, and no link that an agent made leads it further.
fn another_user() -> Result<()> {
    let house = House::open()?;
    let engine = house.engine;
    let project = engine.project();
    let ran = |uid: &str| -> Result<()> {
        for folder in ["box/secrets", "box/workspace"] {
            files::give(&project.join(folder), uid.parse()?)?;
        }
        for arguments in
            [&["up", "-d"][..], &["run", "--rm", "-T", "claude", "--output", "text", "<<text:as another>>"]]
        {
            let mut command = engine.compose(arguments);
            command.env("BOXGATE_UID", uid).env("BOXGATE_GID", uid);
            process::run(command, None, MINUTES)?.expect_code(0).with_context(|| format!("{arguments:?}"))?;
        }
        Ok(())
    };
    let of_the_first = project.join("box/of-the-first");
    files::put(&of_the_first, b"mine", 0o600)?;
    let link = project.join("box/runs/claude/link");
    ran("1000").context("the first user")?;
    std::os::unix::fs::symlink(&of_the_first, &link).context("plant a link")?;
    let other = ran("2345");
    let untouched = std::fs::metadata(&of_the_first)?.uid() == 0;
    std::fs::remove_file(&link)?;
    ran("1000").context("back again")?;
    other.context("another user")?;
    ensure!(untouched, "a link was followed");
    let mut words = engine.compose(&["run", "--rm", "-T", "boxd"]);
    words.env("BOXGATE_UID", "me");
    let told = process::run(words, None, MINUTES)?.expect_code(64)?;
    ensure!(told.stderr.contains("must be numbers"), "{}", told.stderr);
    house.ledger_is_whole()
}

fn two_prompts() -> Result<()> {
    let house = House::open()?;
    house.standin.forget();
    let first = house.engine.start_run(&["claude", "--output", "text", "<<sleep:15>><<text:the first>>"])?;
    house.standin.wait_seen(1, MINUTES).with_context(|| first.stderr())?;
    let second = house.engine.start_run(&["claude", "the second"])?.wait(MINUTES)?.expect_code(75)?;
    for part in ["box claude is held by run", "wait for it to end", "another [[box]]"] {
        ensure!(second.stderr.contains(part), "{part} is not in: {}", second.stderr);
    }
    let first = first.wait(MINUTES)?;
    ensure!(first.text().contains("the first"), "the first run was disturbed: {:?} {}", first.code, first.stderr);
    Ok(())
}

/// As `environment:` or `-e` would have it: the house's own, and one that the house does not know.
fn environment() -> Result<()> {
    let house = House::open()?;
    house.standin.forget();
    for name in ["ANTHROPIC_API_KEY", "MY_SETTING"] {
        let given = format!("{name}={LOGIN}");
        let ran = house.engine.start_run(&["-e", &given, "claude", "hi"])?.wait(MINUTES)?.expect_code(77)?;
        let names = ran.stderr.contains(&format!("the variable {name}")) && ran.stderr.contains("Take it out");
        ensure!(names && !ran.stderr.contains(LOGIN), "{name}: {}", ran.stderr);
    }
    ensure!(house.standin.model_calls().is_empty(), "a box with a secret in it asked a model");
    let foreign = "ANTHROPIC_API_KEY=sk-ant-api03-a-key-of-nobody-in-this-house-0001";
    let ran = house.engine.start_run(&["-e", foreign, "claude", "hi"])?.wait(MINUTES)?.expect_code(0)?;
    ensure!(ran.stderr.contains("WARNING: the variable ANTHROPIC_API_KEY holds what looks like"), "{}", ran.stderr);
    Ok(())
}

/// A second gateway where the first one listens.
fn taken() -> Result<()> {
    let house = network::House::of(Generation::Old)?;
    let engine = house.engine;
    let folder = engine.project().join("box/taken");
    let config =
        "state = \"/tmp/state\"\n[[box]]\nid = \"claude\"\nlisten = \"172.30.253.2:3129\"\nkey_file = \"key\"\n";
    files::put_deep(&folder.join("house.toml"), config.as_bytes(), 0o644)?;
    files::put(&folder.join("key"), "0123456789abcdef".repeat(4).as_bytes(), 0o600)?;
    files::give(&folder, 1000)?;
    let gateway = engine.must(house.compose(&["ps", "-q", "gateway"]))?.text();
    let (network, mount) = (format!("container:{}", gateway.trim()), format!("{}:/etc/boxgate:ro", folder.display()));
    let image = concat!("localhost/boxgate/gateway:", env!("CARGO_PKG_VERSION"));
    let run = ["run", "--rm", "--user", "1000:1000", "--network", &network, "-v", &mount, image];
    let ran = process::run(engine.docker(&run), None, MINUTES)?;
    ensure!(ran.code.is_some_and(|code| code != 0), "two listen at one address");
    for part in ["172.30.253.2:3129", "something else listens there", "another `listen`"] {
        ensure!(ran.stderr.contains(part), "{part} is not in: {}", ran.stderr);
    }
    Ok(())
}

/// Without the option for older engines `gateway_mode_ipv4` is passed over in silence, and the host is on the box's bridge.
fn too_old() -> Result<()> {
    let house = network::House::of(Generation::Old)?;
    let engine = house.engine;
    let base = std::fs::read_to_string(engine.project().join(network::FILE)).context("read the compose file")?;
    let new_only = base
        .replace("      com.docker.network.bridge.inhibit_ipv4: \"true\"\n", "")
        .replace("172.30.253.", "172.30.251.");
    ensure!(new_only.contains("isolated") && !new_only.contains("inhibit_ipv4: "), "{new_only}");
    files::put(&engine.project().join("compose.newer.yaml"), new_only.as_bytes(), 0o644)?;
    let at = |arguments: &[&str]| engine.compose(&[&["-p", "newer", "-f", "compose.newer.yaml"], arguments].concat());
    engine.must(at(&["run", "--rm", "-T", "boxd"]))?;
    let [none, pin] = network::PINNED;
    let run = ["run", "--rm", "-T", "--no-deps", "-e", none, "-e", pin, "claude", "hi"];
    let ran = process::run(at(&run), None, MINUTES)?;
    engine.must(at(&["down", "-v"]))?;
    let ran = ran.expect_code(77)?;
    for part in ["172.30.251.4", "inhibit_ipv4", "compose.network.yaml"] {
        ensure!(ran.stderr.contains(part), "{part} is not in: {}", ran.stderr);
    }
    Ok(())
}

/// In the file that a login's token would be in, without a restart.
fn api_key() -> Result<()> {
    let house = House::open()?;
    let file = house.engine.project().join("box/secrets/anthropic");
    let ran = || -> Result<()> {
        replace(&file, API_KEY)?;
        house.standin.forget();
        let ran = house.engine.start_run(&["claude", "--output", "text", "<<text:by a key>>"])?.wait(MINUTES)?;
        ensure!(ran.expect_code(0)?.text().contains("by a key"), "claude said something else");
        let calls = house.standin.model_calls();
        let carried = |call: &standin::Seen| call.header("x-api-key") == [API_KEY] && call.real;
        ensure!(!calls.is_empty() && calls.iter().all(carried), "another credential was sent");
        // What is neither says what it should be.
        replace(&file, "sk-ant-ort01-of-something-else")?;
        house.engine.start_run(&["claude", "hi"])?.wait(MINUTES)?.expect_code(78)?;
        let status = house.engine.must(house.engine.compose(&["exec", "-T", "gateway", "gateway", "status"]))?.text();
        ensure!(status.contains("claude setup-token") && status.contains("sk-ant-api"), "{status}");
        Ok(())
    };
    let ran = ran();
    replace(&file, LOGIN)?;
    ran
}

/// `CLAUDE_LOGIN`, and no file of that name in `box/secrets`.
fn hosts_login() -> Result<()> {
    let house = House::open()?;
    let engine = house.engine;
    let file = engine.project().join("box/secrets/anthropic");
    let login = engine.project().join("of-the-host");
    let text =
        format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{LOGIN}\",\"expiresAt\":4102444800000,\"scopes\":[]}}}}");
    files::put_deep(&login.join(".credentials.json"), text.as_bytes(), 0o600)?;
    files::give(&login, 1000)?;
    let up = |place: &str| {
        let mut up = engine.compose(&["up", "-d", "gateway"]);
        up.env("CLAUDE_LOGIN", place);
        engine.must(up)
    };
    let away = file.with_extension("away");
    std::fs::rename(&file, &away).context("take the file away")?;
    let ran = || -> Result<()> {
        up("./of-the-host")?;
        let test = [
            "exec",
            "-T",
            "gateway",
            "sh",
            "-c",
            "until gateway ready; do sleep 0.2; done; gateway credential test anthropic",
        ];
        let told = engine.must(engine.compose(&test))?.text();
        ensure!(told.contains("login of claude in /logins/claude") && told.contains("usable"), "{told}");
        house.standin.forget();
        let mut run =
            engine.compose(&["run", "--rm", "-T", "claude", "--output", "text", "<<text:by the host's login>>"]);
        run.env("CLAUDE_LOGIN", "./of-the-host");
        let ran = process::run(run, None, MINUTES)?.expect_code(0)?;
        ensure!(ran.text().contains("by the host's login"), "{}", ran.text());
        let calls = house.standin.model_calls();
        ensure!(!calls.is_empty() && calls.iter().all(|call| call.real), "another credential was sent");
        Ok(())
    };
    let ran = ran();
    std::fs::rename(&away, &file).context("bring the file back")?;
    up("./box/logins/claude")?;
    ran
}

/// As the house's user, into its folder; then it is used. No terminal is needed for a device code, and one is for a paste.
fn login() -> Result<()> {
    let house = House::open()?;
    let engine = house.engine;
    let pasted = process::run(engine.compose(&["run", "--rm", "-T", "gateway", "login", "anthropic"]), None, MINUTES)?;
    let pasted = pasted.expect_code(64)?;
    ensure!(pasted.text().contains("https://claude.ai/oauth/authorize?"), "no address: {}", pasted.text());
    ensure!(pasted.stderr.contains("without -T"), "no fix: {}", pasted.stderr);
    let config = Path::new("box/house/house.toml");
    let file = "folder = \"/logins/codex\"\n";
    let at_the_standin =
        format!("unsafe_refresh_dial = \"{}\"\nrefresh_ca = \"/secrets/standin.pem\"\n", house.address);
    let folder = format!("{file}{at_the_standin}");
    engine.edit(config, file, &folder)?;
    let given = || -> Result<()> {
        house.standin.sign_in(Real::chatgpt("b1b2b3b4-1111-4222-8333-44445555bbbb", "of-the-house"), &[]);
        let ran = engine.must(engine.compose(&["run", "--rm", "-T", "gateway", "login", "openai"]))?;
        ensure!(ran.text().contains("/logins/codex/auth.json") && !ran.text().contains("[[secret]]"), "{}", ran.text());
        // The stand-in's address is the test's own, and read at a start.
        engine.must(engine.compose(&["restart", "gateway"]))?;
        let list = [
            "exec",
            "-T",
            "gateway",
            "sh",
            "-c",
            "until gateway ready; do sleep 0.2; done; gateway credential test openai-codex; stat -c '%u %a' /logins/codex/auth.json",
        ];
        let told = engine.must(engine.compose(&list))?.text();
        let tail = ["exec", "-T", "gateway", "gateway", "ledger", "tail"];
        ensure!(
            engine.must(engine.compose(&tail))?.text().contains("start"),
            "the ledger is not found without --config"
        );
        ensure!(told.contains("usable") && told.contains("login of codex in") && told.contains("1000 600"), "{told}");
        Ok(())
    };
    let given = given();
    // The project is every case's: a house that finds the login has codex use it.
    let there = engine.project().join("box/logins/codex");
    for name in ["auth.json", ".boxgate-refresh.lock"] {
        let path = there.join(name);
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    engine.edit(config, &folder, file)?;
    engine.must(engine.compose(&["restart", "gateway"]))?;
    given
}

pub(super) const API_KEY: &str = "sk-ant-api03-the-key-of-the-house-on-docker";

fn replace(file: &Path, text: &str) -> Result<()> {
    let new = file.with_extension("new");
    files::put(&new, text.as_bytes(), 0o600)?;
    std::os::unix::fs::chown(&new, Some(1000), Some(1000)).context("give the key to the house")?;
    std::fs::rename(&new, file).context("rename the key into its place")
}
