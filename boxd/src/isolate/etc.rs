//! The box's own /etc: files written for it, and the few of the host that programs need and that hold no secret.

use super::identity::Identity;

/// A file written for this box.
pub(crate) struct Written {
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

/// The files that the box has instead of the host's: no users but its own, no name server, no other host.
pub(crate) fn written(who: &Identity) -> Vec<Written> {
    let Identity { uid, gid, by_root: _ } = who;
    let mut passwd =
        format!("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{uid}:{gid}:agent:/session/home:/bin/sh\n");
    let mut group = format!("root:x:0:\nagent:x:{gid}:\n");
    if *uid != NOBODY {
        passwd.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    }
    if *gid != NOBODY {
        group.push_str("nogroup:x:65534:\n");
    }
    [
        ("/etc/passwd", passwd),
        ("/etc/group", group),
        ("/etc/nsswitch.conf", NSSWITCH.to_owned()),
        ("/etc/hosts", HOSTS.to_owned()),
        ("/etc/hostname", "box\n".to_owned()),
        ("/etc/resolv.conf", String::new()),
    ]
    .map(|(path, text)| Written { path, text })
    .into()
}

/// What is shown of the host's /etc, read-only, where it exists.
/// Left out on purpose: profile, bashrc, gitconfig, npmrc, apt and all else where people put tokens.
pub(crate) const SHOWN: [&str; 22] = [
    "/etc/alternatives",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/terminfo",
    "/etc/timezone",
];

const NOBODY: u32 = 65_534;

const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\n\
                        protocols: files\nservices: files\nethers: files\nrpc: files\n";

const HOSTS: &str = "127.0.0.1 localhost box\n::1 localhost\n";

#[cfg(test)]
mod tests {
    use super::{Identity, written};

    #[test]
    fn every_id_has_one_name() {
        for uid in [1000, 65_534] {
            let files = written(&Identity { uid, gid: uid, by_root: false });
            for path in ["/etc/passwd", "/etc/group"] {
                let file = files.iter().find(|file| file.path == path).expect("is written");
                let ids: Vec<_> = file.text.lines().filter_map(|line| line.split(':').nth(2)).collect();
                let mut once = ids.clone();
                once.dedup();
                assert_eq!(ids, once, "{path}");
                assert!(ids.contains(&uid.to_string().as_str()), "{path}");
            }
        }
    }
}
