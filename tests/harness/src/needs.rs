//! What a case may need of the machine.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::docker::{Engine, Generation};
use crate::tools::Tools;

/// A need. Each is looked at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Root,
    /// User, mount, PID and network namespaces.
    Namespaces,
    /// Network namespaces with an interface that leads out.
    Networks,
    /// Mounting a file system where the tests run.
    Mounts,
    Gateway,
    /// The static boxd.
    Boxd,
    /// The pinned claude.
    Agent,
    /// The pinned codex.
    Codex,
    /// The pinned pi, and the node that it needs.
    Pi,
    Python,
    Openssl,
    Curl,
    Git,
    Npm,
    Pip,
    Strace,
    Valgrind,
    /// The compiler, for what must not compile.
    Rustc,
    /// A C compiler, and the static C library.
    Compiler,
    /// The C compiler of musl with its loader, and a static busybox.
    Musl,
    /// The root of a real Alpine, as an archive that `BOXGATE_TEST_ALPINE` names; no registry is asked for one.
    Alpine,
    /// The same of a real Ubuntu: `BOXGATE_TEST_UBUNTU`.
    Ubuntu,
    /// Docker and docker-compose, and root to start an engine; the stand-in as a program, and all agents in npm's tree.
    Docker,
    /// As `Docker`, of the newer generation: Compose 2 and `BuildKit`, fetched from Debian's archive.
    NewDocker,
    /// An engine of the machine's own, and an image of this release of Debian with the clients that people use.
    Clients(&'static str),
}

impl Need {
    /// Why the need is not met, or nothing.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!nix::unistd::Uid::effective().is_root()).then(|| "needs root".to_owned()),
            Self::Namespaces => (!namespaces()).then(|| "this machine allows no user namespaces".to_owned()),
            Self::Networks => crate::network::missing(),
            Self::Mounts => (!mounts()).then(|| "this machine allows no mounts".to_owned()),
            Self::Gateway => Tools::gateway().err().map(|fault| fault.to_string()),
            Self::Boxd => Tools::boxd().err().map(|fault| fault.to_string()),
            Self::Agent => Tools::claude().err().map(|fault| fault.to_string()),
            Self::Codex => Tools::codex().err().map(|fault| fault.to_string()),
            Self::Pi => Tools::pi().err().map(|fault| fault.to_string()),
            Self::Python => program("python3"),
            Self::Openssl => program("openssl"),
            Self::Curl => program("curl"),
            Self::Git => program("git"),
            Self::Npm => program("npm"),
            Self::Pip => program("pip3"),
            Self::Strace => program("strace"),
            Self::Valgrind => program("valgrind"),
            Self::Rustc => program("rustc"),
            Self::Compiler => program("cc"),
            Self::Musl => program("musl-gcc").or_else(|| program("busybox")),
            Self::Alpine => archive("BOXGATE_TEST_ALPINE", "an Alpine"),
            Self::Ubuntu => archive("BOXGATE_TEST_UBUNTU", "an Ubuntu"),
            Self::Docker => Engine::missing(Generation::Old),
            Self::NewDocker => Engine::missing(Generation::New),
            Self::Clients(release) => Engine::missing(Generation::Old)
                .or_else(|| Engine::with_clients(release).err().map(|fault| format!("{fault:#}"))),
        }
    }
}

fn namespaces() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let mut tried = Command::new("unshare");
        tried.args(["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "true"]);
        tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    })
}

fn mounts() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let mut tried = Command::new("unshare");
        tried.args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    })
}

fn archive(variable: &str, of: &str) -> Option<String> {
    let named = std::env::var_os(variable).is_some_and(|path| std::path::Path::new(&path).is_file());
    (!named).then(|| format!("{variable} names no archive of the root of {of}"))
}

fn program(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    (!found).then(|| format!("{name} is not installed"))
}
