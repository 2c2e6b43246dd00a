//! Marks of all secrets: by these a box is searched for them. The values stay here.

use std::collections::BTreeSet;

use box_spec::marks::{DIGITS, is_marked};
use box_spec::{Mark, Marks};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{SecretName, Vault};

impl Vault {
    /// Marks of every value that the house has at this moment, usable or not, under a salt of their own: what one box is
    /// told says nothing about what another one is.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let salt = [(); 2].map(|()| Uuid::new_v4().simple().to_string()).concat();
        let mut secrets = BTreeSet::new();
        for entry in self.entries.values() {
            entry.held.each_value(&entry.config.whose, &mut |value| {
                if is_marked(value) {
                    secrets.insert(mark(&salt, value));
                }
            });
        }
        Marks { salt, secrets: secrets.into_iter().collect() }
    }

    /// The secrets of which no box is searched for some value.
    pub(super) fn unmarked(&self) -> impl Iterator<Item = &SecretName> {
        self.entries.iter().filter_map(|(name, entry)| {
            let mut any = false;
            entry.held.each_value(&entry.config.whose, &mut |value| any |= !is_marked(value));
            any.then_some(name)
        })
    }
}

fn mark(salt: &str, value: &str) -> Mark {
    let digest = Sha256::new().chain_update(salt).chain_update(value).finalize();
    let digest = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    Mark { length: u32::try_from(value.len()).unwrap_or(u32::MAX), digest }
}
