//! An engine of the tests' own, a copy of the house for `compose.yaml`, and images from what was built before.
//!
//! The engine shares nothing with one that the machine may have: no default bridge, no firewall rule, a folder of its own.
//! It ends with the tests, and its folder is removed. There is one of each generation, side by side.

mod generation;
mod newer;
mod base;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process::{self, Ran, Running};
use crate::tools::Tools;
use crate::waits::until;

pub use generation::Generation;

/// A running engine, and a project folder with `compose.yaml` whose images are built.
pub struct Engine {
    generation: Generation,
    folder: PathBuf,
    /// Where its programs are looked for.
    path: OsString,
}

impl Engine {
    /// The engine of the machine's own packages with its images, which are built at the first call.
    ///
    /// # Errors
    ///
    /// When it does not start, or an image cannot be built.
    pub fn get() -> Result<&'static Self> {
        Self::of(Generation::Old)
    }

    /// The engine of this generation with its images, which are built at the first call.
    ///
    /// # Errors
    ///
    /// When it does not start, or an image cannot be built.
    pub fn of(generation: Generation) -> Result<&'static Self> {
        static BUILT: [OnceLock<Result<(), String>>; 2] = [OnceLock::new(), OnceLock::new()];
        let engine = Self::raised(generation).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        let build = || engine.copy_project().and_then(|()| engine.images()).map_err(|fault| format!("{fault:#}"));
        let built = BUILT[generation as usize].get_or_init(build);
        built.as_ref().map(|()| engine).map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    /// The engine with the base of the images alone.
    ///
    /// # Errors
    ///
    /// When it does not start, or the base cannot be had.
    pub fn bare() -> Result<&'static Self> {
        Self::raised(Generation::Old).map_err(|fault| anyhow::anyhow!("{fault}"))
    }

    /// Why there can be no engine of this generation on this machine, or nothing: the programs and root, and then
    /// whether one starts and a base for images can be had.
    #[must_use]
    pub fn missing(generation: Generation) -> Option<String> {
        if !nix::unistd::Uid::effective().is_root() {
            return Some("an engine needs root".to_owned());
        }
        let lacking = generation.lacks().or_else(|| Self::raised(generation).err().map(str::to_owned));
        lacking.map(|fault| format!("no {generation} engine runs here: {fault}"))
    }

    /// The engine alone, started at the first call.
    fn raised(generation: Generation) -> Result<&'static Self, &'static str> {
        static ENGINES: [OnceLock<Result<Engine, String>>; 2] = [OnceLock::new(), OnceLock::new()];
        let start = || Self::start(generation).map_err(|fault| format!("{fault:#}"));
        ENGINES[generation as usize].get_or_init(start).as_ref().map_err(String::as_str)
    }

    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Where `compose.yaml` and its folders are.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// `docker-compose` or `docker compose`, in the project.
    #[must_use]
    pub fn compose(&self, arguments: &[&str]) -> Command {
        let [program, before @ ..] = self.generation.compose() else { unreachable!("a program has a name") };
        let mut command = Command::new(program);
        command.args(before).args(arguments).current_dir(self.project());
        self.of_this_engine(command)
    }

    /// `docker`, at this engine.
    #[must_use]
    pub fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(arguments);
        self.of_this_engine(command)
    }

    /// Runs it to its end, which must be a good one.
    ///
    /// # Errors
    ///
    /// When it ends otherwise, or not in ten minutes.
    pub fn must(&self, command: Command) -> Result<Ran> {
        process::run(command, None, Duration::from_secs(600))?.expect_code(0)
    }

    /// Starts a run of a box in the background.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_run(&self, arguments: &[&str]) -> Result<Running> {
        process::start(self.compose(&[&["run", "--rm", "-T"], arguments].concat()), None)
    }

    fn of_this_engine(&self, mut command: Command) -> Command {
        command.env("PATH", &self.path).env("DOCKER_CONFIG", self.folder.join("config"));
        command.env("DOCKER_HOST", self.host()).env("DOCKER_BUILDKIT", self.generation.buildkit());
        command.env("COMPOSE_PROJECT_NAME", "house");
        command.env("RUST_IMAGE", "programs:here").env("NODE_IMAGE", "agents:here").env("BASE_IMAGE", "base:here");
        command.env("BOX_TOOLS", "");
        command
    }

    fn host(&self) -> String {
        format!("unix://{}/docker.sock", self.folder.display())
    }

    fn start(generation: Generation) -> Result<Self> {
        let programs = generation.programs()?;
        let folder = tempfile::Builder::new().prefix("boxgate-docker-").tempdir().context("make a folder")?.keep();
        std::fs::create_dir(folder.join("config")).context("make a folder")?;
        if let Some(plugins) = &programs.plugins {
            std::os::unix::fs::symlink(plugins, folder.join("config/cli-plugins")).context("link the plugins")?;
        }
        let engine = Self { generation, folder, path: programs.path };
        engine.serve()?;
        let answers = || engine.docker(&["version"]).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
        until("the engine", Duration::from_secs(60), || answers().filter(|status| status.success()))
            .with_context(|| engine.last_words())?;
        engine.release("bookworm", &[], "base:here")?;
        Ok(engine)
    }

    /// The end of the engine's log.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("dockerd.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// A shell holds the engine: told that these tests are gone, it removes its containers and networks, whose bridges would
    /// stay on the machine else, ends the engine by its id, and removes the folder with what is mounted in it.
    fn serve(&self) -> Result<()> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "TERM", "sh", "-c", HOLD, "sh"])
            .arg(&self.folder)
            .args([self.generation.pool(), self.generation.bridge()]);
        command.env("PATH", &self.path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (tell, told) = std::sync::mpsc::channel();
        // The kernel tells the shell when the thread that started it ends, so that one never does.
        std::thread::spawn(move || {
            let started = command.spawn();
            let lives = started.is_ok();
            let _nobody_waits = tell.send(started.map(drop));
            if lives {
                loop {
                    std::thread::park();
                }
            }
        });
        told.recv().context("start the engine")?.context("start the engine")
    }

    fn copy_project(&self) -> Result<()> {
        std::fs::create_dir(self.project()).context("make the project")?;
        let script = "tar -C \"$1\" --exclude=node_modules --exclude='*.crt' --exclude=box/runs --exclude=box/workspace --exclude=.credentials.json --exclude=auth.json \
            -c compose.yaml compose.network.yaml .dockerignore .cargo Cargo.toml Cargo.lock box boxd gateway shim tests | tar -C \"$2\" -x \
            && find \"$2/box/secrets\" -type f ! -name .gitignore -delete";
        let mut copy = Command::new("sh");
        copy.args(["-euc", script, "sh"]).arg(Tools::workspace()).arg(self.project());
        self.must(copy).map(drop)
    }

    /// What was built before stands in place of a compiler and a registry; from it and the base come, by the house's own
    /// Dockerfiles, the images of `compose.yaml`.
    fn images(&self) -> Result<()> {
        let mut stage = Command::new("sh");
        stage.args(["-euc", STAGE, "sh"]).arg(self.folder.join("stage"));
        stage.args([Tools::gateway()?, Tools::standin()?, Tools::boxd()?, Tools::agents().join("node_modules")]);
        self.must(stage)?;
        for name in ["programs", "agents"] {
            let context = self.folder.join("stage").join(name);
            self.must(self.docker(&["build", "-q", "-t", &format!("{name}:here"), &context.to_string_lossy()]))?;
        }
        self.must(self.compose(&["--profile", "demo", "build"]))?;
        let images = self.must(self.docker(&["images", "--format", "{{.Repository}}:{{.Tag}}"]))?.text();
        for image in ["gateway", "standin", "box"] {
            ensure!(images.contains(&format!("localhost/boxgate/{image}:")), "no image {image} among: {images}");
        }
        Ok(())
    }

    /// Replaces a text in a file of the project.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written, or does not have the text.
    pub fn edit(&self, name: &Path, from: &str, to: &str) -> Result<()> {
        let path = self.project().join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(text.contains(from), "{} does not have: {from}", path.display());
        crate::files::put(&path, text.replace(from, to).as_bytes(), 0o644)
    }
}

const HOLD: &str = r#"
bridge=none
if [ "$3" = own ]; then
    bridge=boxgate$(($$ % 100000))
    ip link add "$bridge" type bridge
    ip address add "172.31.$(($$ % 256)).1/24" dev "$bridge"
    ip link set "$bridge" up
fi
dockerd --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/dockerd.pid" --host "unix://$1/docker.sock" \
    --bridge "$bridge" --iptables=false --ip-forward=false --default-address-pool "base=$2,size=24" \
    > "$1/dockerd.log" 2>&1 &
engine=$!
end() {
    export DOCKER_HOST="unix://$1/docker.sock"
    timeout 60 docker ps --all --quiet | timeout 60 xargs --no-run-if-empty docker rm --force
    timeout 60 docker network prune --force
    kill "$engine"
}
trap 'end "$1"' TERM INT
wait "$engine" || wait "$engine" || true
test "$bridge" = none || ip link delete "$bridge"
awk -v "below=$1/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | tac | xargs --no-run-if-empty umount
rm -rf --one-file-system "$1"
"#;
/// In place of a compiler and of npm stand scripts that hand out what is there.
const STAGE: &str = r#"
mkdir -p "$1/programs" "$1/agents"
cp "$2" "$1/programs/gateway"; cp "$3" "$1/programs/standin"; cp "$4" "$1/programs/boxd"
cp -al "$5" "$1/agents/node_modules" 2>/dev/null || cp -a "$5" "$1/agents/"
printf '#!/bin/sh\n' > "$1/programs/update-ca-certificates"
cp "$1/programs/update-ca-certificates" "$1/agents/"
cat > "$1/programs/cargo" <<'END'
#!/bin/sh
set -eu
case "$1" in
    build) mkdir -p target/release && cp /made/gateway /made/standin target/release/ ;;
    rustc) mkdir -p target/boxd && cp /made/boxd target/boxd/ ;;
esac
END
cat > "$1/agents/npm" <<'END'
#!/bin/sh
set -eu
test -f package.json && test -f package-lock.json && test -d node_modules
END
chmod 0755 "$1"/*/update-ca-certificates "$1/programs/cargo" "$1/agents/npm"
printf '%s\n' 'FROM base:here' 'COPY gateway standin boxd /made/' 'COPY cargo update-ca-certificates /usr/local/sbin/' \
    'RUN mkdir -p /etc/ssl/certs && touch /etc/ssl/certs/ca-certificates.crt' > "$1/programs/Dockerfile"
printf '%s\n' 'FROM base:here' 'COPY npm update-ca-certificates /usr/local/sbin/' \
    'COPY node_modules /opt/boxgate/agents/node_modules' > "$1/agents/Dockerfile"
"#;
