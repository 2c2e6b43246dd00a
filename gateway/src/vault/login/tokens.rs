//! The tokens of a login, for their marks.

use super::Login;

impl Login {
    /// Every token that is good for something: those of the file, and what the provider gave and the disk did not take yet.
    pub(in crate::vault) fn each_token(&self, take: &mut impl FnMut(&str)) {
        if let Ok((_, tokens)) = self.form_read() {
            take(tokens.access.expose());
            tokens.refresh.iter().for_each(|refresh| take(refresh.expose()));
        }
        if let Some((_, rotated)) = &self.state().unkept {
            take(rotated.access.expose());
            rotated.refresh.iter().for_each(|refresh| take(refresh.expose()));
        }
    }
}
