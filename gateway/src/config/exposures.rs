//! Exposures: the variables in which an agent finds the stand-in of a service's secret, and the boxes that have them.

use std::collections::BTreeMap;

use box_spec::{BoxId, VariableName};

use crate::policy::Policy;
use crate::runs::Exposure;
use crate::vault::SecretName;

use super::faults::{Faults, Span};
use super::raw::Texts;
use super::reader::At;

/// What one secret exposes, wherever it is granted.
#[derive(Debug)]
pub(super) struct Exposing {
    secret: SecretName,
    variables: Vec<At<VariableName>>,
    span: Span,
}

/// The names that `expose` gives; none is given twice.
pub(super) fn convert(secret: &SecretName, expose: Texts, faults: &mut Faults) -> Option<Exposing> {
    let At { value: names, span } = expose?;
    let mut variables: Vec<At<VariableName>> = Vec::new();
    for name in names {
        let read = name.value.parse::<VariableName>().map_err(|fault| format!("`expose` {:?} {fault}", name.value));
        let Some(value) = faults.take(&name.span, read) else { continue };
        if variables.iter().any(|other| other.value == value) {
            faults.add(name.span, format!("{value} is exposed twice by this [[secret]]"));
        } else {
            variables.push(At { value, span: name.span });
        }
    }
    Some(Exposing { secret: secret.clone(), variables, span })
}

/// What each box is given: of every secret that one of its grants sends. A variable of a box holds one stand-in.
pub(super) fn of_boxes(
    boxes: &[BoxId],
    exposing: &[Exposing],
    policy: &Policy,
    faults: &mut Faults,
) -> Vec<Vec<Exposure>> {
    let sends = |secret: &SecretName, box_id: Option<&BoxId>| {
        policy.grants().iter().any(|grant| {
            grant.secret.as_ref() == Some(secret) && box_id.is_none_or(|id| grant.matching().boxes.include(id))
        })
    };
    for one in exposing.iter().filter(|one| !sends(&one.secret, None)) {
        faults.add(
            one.span.clone(),
            format!("`expose` without a grant: no [[grant]] sends the secret \"{}\", so its stand-in would be worth nothing anywhere", one.secret),
        );
    }
    let mut of_boxes = Vec::new();
    let mut told = Vec::new();
    for id in boxes {
        let mut holders: BTreeMap<&VariableName, &SecretName> = BTreeMap::new();
        let mut exposures = Vec::new();
        for one in exposing.iter().filter(|one| sends(&one.secret, Some(id))) {
            for At { value: name, span } in &one.variables {
                let other = holders.insert(name, &one.secret);
                if let Some(other) = other.filter(|_| !told.contains(span)) {
                    told.push(span.clone());
                    faults.add(
                        span.clone(),
                        format!("box {id} would find two secrets in {name}, \"{other}\" and \"{}\": give them other names, or their grants other `boxes`", one.secret),
                    );
                }
            }
            if let Some(name) = one.variables.last().filter(|_| holders.len() > MOST) {
                faults.add(
                    name.span.clone(),
                    format!("box {id} would be given more than {MOST} variables: expose fewer"),
                );
            }
            let variables = one.variables.iter().map(|name| name.value.clone()).collect();
            exposures.push(Exposure { secret: one.secret.clone(), variables });
        }
        of_boxes.push(exposures);
    }
    of_boxes
}

/// Of one box; the spec that tells them is one line.
const MOST: usize = 64;
