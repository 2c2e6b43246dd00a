//! The way to the door: the outer boxd keeps the door's folder and connects; the box gets connected sockets only.
//!
//! No descriptor of a host folder exists in the box: through one, `..` would lead to the whole host.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, UnixAddr,
    connect, recvmsg, sendmsg, setsockopt, socket, socketpair, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use shim::DoorStream;
use tokio::net::TcpStream;

use super::fault::{IsolateFault, at};
use super::plan::{DoorPlace, Plan};
use crate::network_door;
use crate::sys::isolate::adopt;

/// The box's end: asks the outer boxd for a connection to the door.
#[derive(Debug)]
pub(crate) struct DoorLine {
    line: OwnedFd,
    /// The number of the last question; a late answer to an older one is thrown away.
    asked: Mutex<u32>,
}

/// The outer end: holds the door's folder, and answers.
#[derive(Debug)]
pub(crate) struct DoorKeeper {
    line: OwnedFd,
    held: HeldDoor,
}

#[derive(Debug)]
enum HeldDoor {
    Socket { folder: File, name: PathBuf },
    Network(SocketAddr),
}

/// Opens the folder of the door, and the line between the two halves of boxd.
pub(crate) fn open(plan: &Plan) -> Result<(DoorKeeper, DoorLine), IsolateFault> {
    let held = match &plan.door {
        DoorPlace::Socket { folder, name } => {
            let opened = File::options()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
                .open(folder)
                .map_err(|source| IsolateFault::Door { path: folder.join(name), source })?;
            HeldDoor::Socket { folder: opened, name: name.clone() }
        }
        DoorPlace::Network(address) => HeldDoor::Network(*address),
    };
    let (outer, inner) = line().map_err(at("open", "the line to the outer boxd"))?;
    let keeper = DoorKeeper { line: outer, held };
    let line = DoorLine { line: inner, asked: Mutex::new(0) };
    Ok((keeper, line))
}

impl DoorLine {
    /// A new connection to the door, non-blocking; waits for the outer boxd at most two seconds.
    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        let mut asked = self.asked.lock().map_err(|_| Errno::EDEADLK)?;
        *asked = asked.wrapping_add(1);
        let number = *asked;
        let none: &[ControlMessage<'_>] = &[];
        say(self.line.as_fd(), &number.to_le_bytes(), none)?;
        let deadline = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < deadline {
            let (answer, stream) = self.hear()?;
            if answer.number == number {
                return match (answer.errno, stream) {
                    (0, Some(stream)) => Ok(stream),
                    (0, None) => Err(Errno::EPROTO.into()),
                    (errno, _) => Err(io::Error::from_raw_os_error(errno)),
                };
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// As the launch sees it.
    pub(crate) fn into_door(self, place: &DoorPlace) -> shim::Door {
        let line = Arc::new(self);
        let over_network = matches!(place, DoorPlace::Network(_));
        shim::Door::through(&place.shown(), move || {
            let line = Arc::clone(&line);
            Box::pin(async move {
                let stream = line.connect()?;
                match over_network {
                    true => connected(stream).await.map(DoorStream::Network),
                    false => tokio::net::UnixStream::from_std(stream.into()).map(DoorStream::Socket),
                }
            })
        })
    }

    /// Waits until the outer boxd has mapped the ids; false if it is gone.
    pub(crate) fn wait_for_go(&self) -> io::Result<bool> {
        Ok(self.hear()?.0.number == GO)
    }

    /// The one descriptor that the box keeps.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.line
    }

    fn hear(&self) -> io::Result<(Answer, Option<OwnedFd>)> {
        let mut bytes = [0; 8];
        let mut space = cmsg_space!([libc::c_int; 1]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let fd = self.line.as_raw_fd();
        let heard = recvmsg::<()>(fd, &mut parts, Some(&mut space), flags)?;
        let length = heard.bytes;
        let mut stream = None;
        for message in heard.cmsgs()? {
            if let ControlMessageOwned::ScmRights(brought) = message {
                stream = brought.into_iter().map(adopt).next_back();
            }
        }
        match length {
            8 => Ok((Answer::read(bytes), stream)),
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            _ => Err(Errno::EPROTO.into()),
        }
    }
}

impl DoorKeeper {
    /// Tells the box that its ids are mapped.
    pub(crate) fn say_go(&self) -> io::Result<()> {
        self.answer(GO, 0, None)
    }

    /// Answers one question; false when the box is gone.
    pub(crate) fn serve(&self) -> io::Result<bool> {
        let mut bytes = [0; 4];
        let length = nix::unistd::read(&self.line, &mut bytes)?;
        if length != bytes.len() {
            return Ok(false);
        }
        let number = u32::from_le_bytes(bytes);
        match self.connect() {
            Ok(stream) => self.answer(number, 0, Some(&stream))?,
            Err(errno) => self.answer(number, errno as i32, None)?,
        }
        Ok(true)
    }

    /// Where questions arrive.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Never waits: a door with a full queue is an errno for the box, which tries again.
    fn connect(&self) -> Result<OwnedFd, Errno> {
        let open = |family| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(family, SockType::Stream, flags, None)
        };
        match &self.held {
            HeldDoor::Socket { folder, name } => {
                let stream = open(AddressFamily::Unix)?;
                // The folder's number keeps the path short, whatever the door's own path is.
                let folder = format!("/proc/self/fd/{}", folder.as_raw_fd());
                let address = UnixAddr::new(&Path::new(&folder).join(name))?;
                connect(stream.as_raw_fd(), &address)?;
                Ok(stream)
            }
            HeldDoor::Network(address) => {
                let stream = open(if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 })?;
                network_door::watch(&stream)
                    .map_err(|fault| fault.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
                match connect(stream.as_raw_fd(), &SockaddrStorage::from(*address)) {
                    // The box waits for it.
                    Ok(()) | Err(Errno::EINPROGRESS) => Ok(stream),
                    Err(errno) => Err(errno),
                }
            }
        }
    }

    fn answer(&self, number: u32, errno: i32, stream: Option<&OwnedFd>) -> io::Result<()> {
        let fds = stream.map(|stream| [stream.as_raw_fd()]);
        let rights = fds.as_ref().map(|fds| ControlMessage::ScmRights(fds));
        let bytes = Answer { number, errno }.write();
        say(self.line.as_fd(), &bytes, rights.as_slice())
    }
}

/// Waits for a connection that the outer boxd began.
async fn connected(stream: OwnedFd) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(stream.into())?;
    stream.writable().await?;
    match stream.take_error()? {
        None => Ok(stream),
        Some(fault) => Err(fault),
    }
}

struct Answer {
    number: u32,
    errno: i32,
}

impl Answer {
    fn write(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..].copy_from_slice(&self.errno.to_le_bytes());
        bytes
    }

    fn read(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { number: u32::from_le_bytes([a, b, c, d]), errno: i32::from_le_bytes([e, f, g, h]) }
    }
}

fn say(line: BorrowedFd<'_>, bytes: &[u8], with: &[ControlMessage<'_>]) -> io::Result<()> {
    let parts = [IoSlice::new(bytes)];
    let sent = sendmsg::<()>(line.as_raw_fd(), &parts, with, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent != bytes.len() {
        return Err(Errno::EPROTO.into());
    }
    Ok(())
}

/// A pair that keeps messages apart, with a deadline on every wait of either end.
fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SockType::SeqPacket;
    let (outer, inner) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
    let within = TimeVal::milliseconds(ANSWER_WITHIN.as_millis().try_into().unwrap_or(2000));
    for end in [&outer, &inner] {
        setsockopt(end, sockopt::ReceiveTimeout, &within)?;
        setsockopt(end, sockopt::SendTimeout, &within)?;
    }
    Ok((outer, inner))
}

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// No question has this number: they begin at one.
const GO: u32 = 0;

#[cfg(test)]
mod tests {
    use super::{DoorKeeper, DoorLine, File, HeldDoor, Mutex, Path, PathBuf, line};
    use std::io::Read;
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn halves(folder: &Path) -> (DoorKeeper, DoorLine) {
        let (outer, inner) = line().expect("a line");
        let keeper = DoorKeeper {
            line: outer,
            held: HeldDoor::Socket {
                folder: File::open(folder).expect("the folder"),
                name: PathBuf::from("door.sock"),
            },
        };
        let line = DoorLine { line: inner, asked: Mutex::new(0) };
        (keeper, line)
    }

    #[test]
    fn the_box_gets_a_connection_or_the_errno_of_the_attempt() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keeper, line) = halves(folder.path());
        let outer = std::thread::spawn(move || while keeper.serve().expect("a question") {});
        let missing = line.connect().expect_err("no door yet");
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        let door = UnixListener::bind(folder.path().join("door.sock")).expect("a door");
        for _ in 0..3 {
            let mut inside = UnixStream::from(line.connect().expect("a connection"));
            inside.set_nonblocking(false).expect("blocking");
            let (mut outside, _) = door.accept().expect("the house hears it");
            inside.write_all(b"hi").expect("to say hi");
            let mut heard = [0; 2];
            outside.read_exact(&mut heard).expect("to hear it");
            assert_eq!(&heard, b"hi");
        }
        drop(line);
        outer.join().expect("the keeper ends when the box is gone");
    }

    #[test]
    fn a_late_answer_is_never_taken_for_another_question() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keeper, line) = halves(folder.path());
        keeper.answer(9, 13, None).expect("an answer to nothing");
        let _door = UnixListener::bind(folder.path().join("door.sock")).expect("a door");
        let outer = std::thread::spawn(move || keeper.serve().expect("a question"));
        line.connect().expect("its own answer");
        assert!(outer.join().expect("the keeper"));
    }

    #[test]
    fn a_keeper_that_is_gone_is_an_error_and_no_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keeper, line) = halves(folder.path());
        keeper.say_go().expect("the word");
        assert!(line.wait_for_go().expect("is heard"));
        drop(keeper);
        assert!(line.connect().is_err());
        assert!(line.wait_for_go().is_err());
    }
}
