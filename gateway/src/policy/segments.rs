//! Segments: lists of words against patterns in which one part may stand for any number of them.

/// One part of a pattern.
pub(super) trait Part {
    /// Whether it stands for any number of words, and for none.
    fn is_many(&self) -> bool;
    /// Whether it stands for this one word.
    fn is(&self, word: &str) -> bool;
}

/// Whether the words are what the parts say, from the first to the last. Only the last part that stands for many is ever
/// taken up again: what a box may write as a path is long.
pub(super) fn fit<P: Part>(parts: &[P], found: &[&str]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while at < found.len() {
        match parts.get(part) {
            Some(many) if many.is_many() => {
                part += 1;
                again = Some((part, at));
            }
            Some(wanted) if wanted.is(found[at]) => (part, at) = (part + 1, at + 1),
            _ => {
                let Some((after, from)) = again else { return false };
                again = Some((after, from + 1));
                (part, at) = (after, from + 1);
            }
        }
    }
    parts[part..].iter().all(Part::is_many)
}
