//! boxd as the entrypoint of any image: Debian, a root of busybox and musl, and one that holds nothing; every user, home and
//! root; and what PID 1 owes to the engine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::terminal::{Deed, at_terminal};
use harness::{Case, Engine, House, Need, Ran, Running, Tools, case, files, process, until};
use standin::Real;
use tempfile::TempDir;

pub(crate) const CASES: &[Case] = &[
    case("docker::images::boxd_and_its_agent_run_in_every_image", every_image).needs(MUSL).alone(),
    case("docker::images::a_real_alpine", alpine).needs(ALPINE).alone(),
    case("docker::images::a_real_ubuntu", ubuntu).needs(UBUNTU).alone(),
    case("docker::images::users_homes_and_roots_of_every_kind", every_home).needs(NEEDS).alone(),
    case("docker::images::a_thousand_orphans_leave_no_zombie", orphans).needs(NEEDS).alone(),
    case("docker::images::stop_takes_the_agents_own_time", stop).needs(NEEDS).alone(),
    case("docker::images::a_shell_in_a_box_alone_and_beside_the_agent", shell).needs(NEEDS).alone(),
];

fn every_image() -> Result<()> {
    let box_ = AnyBox::new()?;
    box_.build("cc", &["-static", "-O1"], "agent-static")?;
    box_.build("musl-gcc", &["-O1"], "agent-musl")?;
    box_.make_images()?;
    box_.governs(&[("base:here", "agent-static"), ("busybox:here", "agent-musl"), ("nothing:here", "agent-static")])
}

fn alpine() -> Result<()> {
    real("BOXGATE_TEST_ALPINE", "musl-gcc")
}

fn ubuntu() -> Result<()> {
    real("BOXGATE_TEST_UBUNTU", "cc")
}

/// An image from the archive of a root that the variable names.
fn real(variable: &str, compiler: &str) -> Result<()> {
    let archive = std::env::var(variable).with_context(|| format!("read {variable}"))?;
    let box_ = AnyBox::new()?;
    box_.build(compiler, &["-O1"], "agent-real")?;
    box_.engine.must(box_.engine.docker(&["import", &archive, "real:here"]))?;
    box_.governs(&[("real:here", "agent-real")])
}

impl AnyBox {
    /// Every image with its agent, as every user, with each kind of root and of PID 1.
    fn governs(&self, images: &[(&str, &str)]) -> Result<()> {
        let box_ = self;
        for (image, agent) in images {
            for (user, options) in [("1000:1000", &["--cap-drop=ALL"][..]), ("0:0", &["--cap-drop=ALL"]), ("0:0", &[])]
            {
                for more in [&[][..], &["--read-only"], &["--init"]] {
                    let what = format!("{image} as {user} with {options:?} {more:?}");
                    let ran = box_.run(&[&["--user", user], options, more].concat(), image, agent, &["run", "hi"])?;
                    let ran = ran.expect_code(7).with_context(|| what.clone())?;
                    let told = ran.text();
                    let uid = user.split(':').next().unwrap_or_default();
                    for wanted in [&format!("uid {uid}"), "home writable", "bundle read", "refused 403 no-grant"] {
                        ensure!(told.contains(wanted), "{what}: no {wanted:?} in {told}\n{}", ran.stderr);
                    }
                }
            }
        }
        let init = |line: &serde_json::Value| line["kind"] == "claim" && line["facts"]["namespace_init"] == false;
        ensure!(
            box_.house.ledger()?.iter().filter(|line| init(line)).count() == 3 * images.len(),
            "--init is not told"
        );
        let failed = |line: &serde_json::Value| ["lost", "alarm"].iter().any(|kind| line["kind"] == *kind);
        ensure!(!box_.house.ledger()?.iter().any(failed), "a run was lost");
        Ok(())
    }
}

/// In Debian, as user 1000 whom no file of the image knows, and without what an image may lack.
fn every_home() -> Result<()> {
    let box_ = AnyBox::new()?;
    box_.build("cc", &["-static", "-O1"], "agent-static")?;
    box_.make_images()?;
    for (what, options, image) in [
        ("no HOME at all", &["-e", "HOME="][..], "base:here"),
        ("a HOME that is missing", &["-e", "HOME=/nowhere"], "base:here"),
        ("a HOME that cannot be written", &["-e", "HOME=/usr"], "base:here"),
        ("a HOME that is a mount", &["-e", "HOME=/home/me", "--tmpfs=/home/me:mode=1777"], "base:here"),
        ("no passwd, no /etc, no /tmp", &["-e", "HOME=/nowhere", "--read-only"], "nothing:here"),
    ] {
        let options = [&["--user=1000:1000", "--cap-drop=ALL"], options].concat();
        let ran = box_.run(&options, image, "agent-static", &["run", "hi"])?.expect_code(7).context(what)?;
        ensure!(ran.text().contains("home writable"), "{what}: {}", ran.text());
        let home = if what.ends_with("mount") { "home /home/me" } else { "home /session/home" };
        ensure!(ran.text().contains(home), "{what}: {}", ran.text());
    }
    Ok(())
}

fn orphans() -> Result<()> {
    let box_ = AnyBox::new()?;
    let script = "i=0; while [ $i -lt 1000 ]; do ( sleep 0 & ) ; i=$((i+1)); done; sleep 1; n=0; \
        for f in /proc/[0-9]*/stat; do read -r line < $f && case \"$line\" in *') Z '*) n=$((n+1));; esac; done 2>/dev/null; \
        echo \"zombies $n\"; exit 7";
    let ran = box_.run_script(&["--user=1000:1000"], script)?.wait(MINUTES)?.expect_code(7)?;
    ensure!(ran.text().contains("zombies 0"), "{}", ran.text());
    Ok(())
}

/// Beside the same program as the entrypoint itself, which is the engine's own time.
fn stop() -> Result<()> {
    let box_ = AnyBox::new()?;
    let script = "trap 'sleep 1; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut with, mut without) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let (took, ran) = box_.stopped(box_.run_script(&["--name=stopped"], script)?)?;
        ensure!(ran.code == Some(5), "{:?}: {}", ran.code, ran.stderr);
        with = with.min(took);
        let plain = ["run", "--rm", "--name=stopped", "--network=none", "base:here", "sh", "-c", script];
        let (took, _) = box_.stopped(process::start(box_.engine.docker(&plain), None)?)?;
        without = without.min(took);
    }
    ensure!(with <= without + Duration::from_millis(300), "{with:?} with boxd and {without:?} without");
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let (took, ran) = box_.stopped(box_.run_script(&["--name=stopped"], deaf)?)?;
    ensure!(ran.code == Some(137) && took < Duration::from_secs(10), "{:?} after {took:?}: {}", ran.code, ran.stderr);
    for (script, code) in [("exit 0", 0), ("exit 42", 42), ("kill -SEGV $$", 139)] {
        box_.run_script(&[], script)?.wait(MINUTES)?.expect_code(code)?;
    }
    Ok(())
}

fn shell() -> Result<()> {
    let box_ = AnyBox::new()?;
    let deeds = [
        Deed::See("$ "),
        Deed::Type("sh -c 'echo on; exec cat'\n"),
        Deed::See("on\r\n"),
        Deed::Type("\u{1a}"),
        Deed::See("Stopped"),
        Deed::See("$ "),
        Deed::Type("fg\n"),
        Deed::See("cat"),
        Deed::See("\r\n"),
        Deed::Type("\u{3}"),
        Deed::See("$ "),
        Deed::Type("echo \"by $HTTPS_PROXY\"; exit 5\n"),
        Deed::See("by http://127.0.0.1:3128"),
    ];
    let bash = ["bash", "--norc", "--noprofile", "-i"];
    let mut alone = box_.docker(&["-it", "--user=1000:1000", "--read-only", "-e", "PS1=$ "], "base:here");
    alone.args(["exec", "--"]).args(bash);
    let told = at_terminal(&alone, &deeds, MINUTES)?.expect_code(5)?.text();
    ensure!(!told.contains("cannot set terminal") && !told.contains("no job control"), "{told}");
    let script = "echo ready; while [ ! -e /session/go ]; do sleep 0.1; done; exit 0";
    let running = box_.run_script(&["--name=beside", "--user=1000:1000", "--read-only"], script)?;
    until("the agent", MINUTES, || running.stdout().starts_with(b"ready").then_some(()))
        .with_context(|| running.stderr())?;
    let exec = |options: &[&str]| {
        let inside = ["beside", "/boxgate/boxd", "exec", "--"];
        box_.engine.docker(&[&["exec"], options, &inside, &bash].concat())
    };
    let told = at_terminal(&exec(&["-it", "-e", "PS1=$ "]), &deeds, MINUTES)?.expect_code(5)?.text();
    ensure!(!told.contains("cannot set terminal") && !told.contains("no job control"), "{told}");
    // Another user than the one whose boxd told of the run: what belongs to the agent leads him nowhere.
    let root = process::run(exec(&["-u", "0:0"]), None, MINUTES)?.expect_code(77)?;
    ensure!(root.stderr.contains("belongs to user 1000"), "{}", root.stderr);
    files::put(&box_.session().join("go"), b"", 0o644)?;
    running.wait(MINUTES)?.expect_code(0)?;
    let claims: Vec<bool> = box_
        .house
        .ledger()?
        .iter()
        .filter(|line| line["kind"] == "claim")
        .map(|line| line["facts"]["command"] == true)
        .collect();
    ensure!(claims == [true, false], "{claims:?}");
    Ok(())
}

/// A house on the host, and a box of an image at its door.
struct AnyBox {
    engine: &'static Engine,
    house: House,
    folder: TempDir,
}

impl AnyBox {
    fn new() -> Result<Self> {
        let engine = Engine::bare()?;
        let house = House::builder().secret(Real::Bearer(SECRET.into())).start()?;
        let folder = tempfile::Builder::new().prefix("images-").tempdir().context("make a folder")?;
        open_to_all(folder.path())?;
        for path in
            [house.folder().to_path_buf(), house.door("one").parent().unwrap_or_else(|| Path::new("/")).to_path_buf()]
        {
            open_to_all(&path)?;
        }
        std::fs::create_dir(folder.path().join("agent")).context("make the agent's folder")?;
        files::put(&folder.path().join("agent.c"), AGENT.as_bytes(), 0o644)?;
        let it = Self { engine, house, folder };
        std::fs::create_dir(it.session()).context("make the session")?;
        it.give_session()?;
        Ok(it)
    }

    fn session(&self) -> PathBuf {
        self.folder.path().join("session")
    }

    /// To whoever comes next.
    fn give_session(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.session(), std::fs::Permissions::from_mode(0o777)).context("open the session")
    }

    fn build(&self, compiler: &str, flags: &[&str], name: &str) -> Result<()> {
        let mut build = Command::new(compiler);
        build.args(flags).arg("-o").arg(self.folder.path().join(name)).arg(self.folder.path().join("agent.c"));
        process::run(build, None, MINUTES)?.expect_code(0).map(drop)
    }

    /// One root of busybox and musl's loader, and one with nothing in it.
    fn make_images(&self) -> Result<()> {
        let mut make = Command::new("sh");
        make.args(["-euc", IMAGES, "sh"]).arg(self.folder.path().join("roots"));
        self.engine.must(make)?;
        for name in ["busybox", "nothing"] {
            let tar = self.folder.path().join(format!("roots/{name}.tar"));
            self.engine.must(self.engine.docker(&["import", &tar.to_string_lossy(), &format!("{name}:here")]))?;
        }
        Ok(())
    }

    fn docker(&self, options: &[&str], image: &str) -> Command {
        let mount = |from: PathBuf, to: &str| format!("--volume={}:{to}", from.display());
        let door = self.house.door("one");
        let door = door.parent().unwrap_or_else(|| Path::new("/"));
        let mut command = self.engine.docker(&["run", "--rm", "--network=none", "--security-opt=no-new-privileges"]);
        command.arg(mount(door.to_path_buf(), "/run/boxgate/door:ro"));
        command.arg(mount(Tools::boxd().unwrap_or_default(), "/boxgate/boxd:ro"));
        command.arg(mount(self.folder.path().join("agent"), "/agent:ro")).arg(mount(self.session(), "/session"));
        command.args(["-e", "BOXGATE_AGENT_PATH=/agent", "--entrypoint=/boxgate/boxd"]).args(options).arg(image);
        command
    }

    fn run(&self, options: &[&str], image: &str, agent: &str, arguments: &[&str]) -> Result<Ran> {
        self.put_agent(&std::fs::read(self.folder.path().join(agent)).context("read the agent")?)?;
        self.fresh_session()?;
        let mut command = self.docker(options, image);
        command.args(arguments);
        process::run(command, None, MINUTES)
    }

    /// In Debian, with a shell script for the agent.
    fn run_script(&self, options: &[&str], script: &str) -> Result<Running> {
        self.put_agent(format!("#!/bin/sh\n{script}\n").as_bytes())?;
        self.fresh_session()?;
        let mut command = self.docker(options, "base:here");
        command.args(["run", "hi"]);
        process::start(command, None)
    }

    fn put_agent(&self, bytes: &[u8]) -> Result<()> {
        let place = self.folder.path().join("agent/claude");
        if place.exists() {
            std::fs::remove_file(&place).context("remove the former agent")?;
        }
        files::put(&place, bytes, 0o755)
    }

    /// Else one user would find the other's.
    fn fresh_session(&self) -> Result<()> {
        std::fs::remove_dir_all(self.session()).context("remove the former session")?;
        std::fs::create_dir(self.session()).context("make the session")?;
        self.give_session()
    }

    /// How long `docker stop` takes of one that is ready, and how it ended.
    fn stopped(&self, running: Running) -> Result<(Duration, Ran)> {
        until("the agent", MINUTES, || running.stdout().starts_with(b"ready").then_some(()))
            .with_context(|| running.stderr())?;
        let began = Instant::now();
        self.engine.must(self.engine.docker(&["stop", "--time", "30", "stopped"]))?;
        let took = began.elapsed();
        Ok((took, running.wait(MINUTES)?))
    }
}

fn open_to_all(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).context("open a folder to the box")
}

const SECRET: &str = "sk-ant-oat01-REAL-of-the-images";
const NEEDS: &[Need] = &[Need::Docker, Need::Gateway, Need::Boxd, Need::Python, Need::Compiler];
const MUSL: &[Need] = &[Need::Docker, Need::Gateway, Need::Boxd, Need::Compiler, Need::Musl];
const ALPINE: &[Need] = &[Need::Docker, Need::Gateway, Need::Boxd, Need::Musl, Need::Alpine];
const UBUNTU: &[Need] = &[Need::Docker, Need::Gateway, Need::Boxd, Need::Compiler, Need::Ubuntu];
const MINUTES: Duration = Duration::from_secs(180);
const IMAGES: &str = r#"
mkdir -p "$1/busybox/bin" "$1/busybox/lib" "$1/nothing"
if [ -x /usr/bin/busybox ]; then cp /usr/bin/busybox "$1/busybox/bin/"; fi
for name in sh ls cat env; do ln -s busybox "$1/busybox/bin/$name"; done
for loader in /lib/ld-musl-*.so.1; do if [ -e "$loader" ]; then cp -L "$loader" "$1/busybox/lib/"; fi; done
for name in busybox nothing; do tar -C "$1/$name" -cf "$1/$name.tar" .; done
"#;
/// Tells what it finds, asks for a host that nobody granted, and ends with 7.
const AGENT: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    char path[4096], text[8192] = "";
    const char *home = getenv("HOME"), *proxy = getenv("HTTP_PROXY"), *bundle = getenv("SSL_CERT_FILE");
    printf("uid %d\nhome %s\n", (int)getuid(), home);
    snprintf(path, sizeof path, "%s/made-by-the-agent", home);
    if (open(path, O_CREAT | O_WRONLY, 0600) >= 0) puts("home writable");
    int file = open(bundle, O_RDONLY);
    if (read(file, text, sizeof text - 1) > 0 && strstr(text, "BEGIN CERTIFICATE")) puts("bundle read");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(strrchr(proxy, ':') + 1))};
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int wire = socket(AF_INET, SOCK_STREAM, 0);
    const char *ask = "GET http://nobody.test/ HTTP/1.1\r\nHost: nobody.test\r\nConnection: close\r\n\r\n";
    if (connect(wire, (struct sockaddr *)&at, sizeof at) == 0 && write(wire, ask, strlen(ask)) > 0) {
        size_t got = 0;
        ssize_t more;
        memset(text, 0, sizeof text);
        while (got < sizeof text - 1 && (more = read(wire, text + got, sizeof text - 1 - got)) > 0) got += more;
        if (strncmp(text, "HTTP/1.1 403", 12) == 0 && strstr(text, "no-grant")) puts("refused 403 no-grant");
        else printf("answered %s\n", text);
    }
    fflush(stdout);
    return 7;
}
"#;
