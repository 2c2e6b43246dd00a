//! Fault: why a file is no login that the house could use and keep fresh, in words that name the fix.

/// What is wrong with a file that should hold a login.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginFault {
    #[error("is no JSON")]
    NotJson,
    #[error(
        "holds no login ({0} is not there): log in on the host with `{1}`; an API key is a [[secret]] with `file` or `env`"
    )]
    NoLogin(String, &'static str),
    #[error("holds something else than a token at {0}")]
    Bad(String),
    #[error("is a symbolic link, which a refresh would replace: give `folder` the folder that it leads to")]
    Linked,
    #[error(
        "lies in a folder that the gateway cannot write to, so that a refreshed login could not be kept: mount the folder read-write, for the gateway's user"
    )]
    ReadOnly,
    #[error(
        "belongs to user {owner} and the gateway runs as {own}: a refreshed login must stay readable for its owner, so run the gateway as that user"
    )]
    Owner { owner: u32, own: u32 },
    #[error(
        "is readable for the group {0}, which the gateway is not in: a refreshed login could not be given to it, so run the gateway with that group or take the group's right away"
    )]
    Group(u32),
}
