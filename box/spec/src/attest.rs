//! The attestation: what boxd proves or states about its box before the agent starts.

use serde::{Deserialize, Serialize};

/// What boxd proves or states about itself and its box before the agent starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attestation {
    /// No interface but loopback and no route: what leaves, leaves through the door.
    pub locked: bool,
    /// The other processes of the box cannot read boxd's memory or descriptors.
    pub non_dumpable: bool,
    pub no_new_privileges: bool,
    pub namespace_init: bool,
    /// The house was pinned by its fingerprint before the claim.
    pub pinned: bool,
    /// The files that the box's clients are told of hold the house's certificate, as they were read back.
    pub trusts_house: bool,
    /// None of the house's secrets was found in what [`BoxFacts::searched`] counts.
    pub secret_free: bool,
    /// The hardening, layer by layer.
    pub layers: Layers,
    /// The agent's numeric user id.
    pub uid: u32,
    /// The version of the agent's package, where it can be read without running the agent.
    pub agent_version: Option<String>,
    /// What the box is, as its kernel and its image tell it.
    pub facts: BoxFacts,
}

/// What was done to keep the agent from what no agent needs, whatever made the box.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// The system call filter.
    pub filter: Layer,
    /// No capability that leads out of a box.
    pub capabilities: Layer,
    /// The Landlock domain, which keeps the agent's signals from boxd and abstract sockets of others from the agent.
    pub scope: Layer,
    /// No core files; short of memory, the kernel takes the agent before boxd.
    pub limits: Layer,
}

/// One layer of the hardening.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    On,
    /// The caller left it out, for this reason.
    LeftOut(String),
    /// The kernel does not have it.
    Absent,
}

/// Facts about a box that prove nothing by themselves, and tell an operator what ran there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxFacts {
    /// Interfaces beside loopback that are up.
    pub interfaces: Vec<String>,
    /// Interfaces beside loopback that a route leads through.
    pub routes: Vec<String>,
    /// What the image's resolver is told to ask.
    pub name_servers: Vec<String>,
    /// Effective capabilities, 16 hexadecimal digits.
    pub capabilities: String,
    /// Those that a program could still be given, the same way.
    pub bounding: String,
    /// How many system call filters are in force; the kernel tells since 5.9.
    pub filters: Option<u32>,
    /// `PRETTY_NAME` of the image.
    pub image: Option<String>,
    /// The kernel's release.
    pub kernel: String,
    pub read_only_root: bool,
    /// Where the house's secrets were searched for.
    pub searched: Searched,
}

/// How far the search for the house's secrets came.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Searched {
    pub variables: u32,
    pub files: u32,
    /// Of the files, in bytes.
    pub bytes: u64,
    /// Files and folders that were not looked into: too large, too many, or closed to boxd. Of these nothing is proven.
    pub left_out: u32,
}

impl Layers {
    /// Each layer by its name.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, &Layer); 4] {
        let Self { filter, capabilities, scope, limits } = self;
        [("filter", filter), ("capabilities", capabilities), ("scope", scope), ("limits", limits)]
    }
}
