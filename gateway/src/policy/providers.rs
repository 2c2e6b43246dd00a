//! The provider registry: model hosts and paths, and the routes that never reach an upstream.

use box_spec::Provider;
use http::Method;

use crate::host::{Host, Target};

use super::durable::makes_durable;
use super::path::NormalPath;

/// What is fixed about a provider. Hosts match exactly: `ab.chatgpt.com` is not `chatgpt.com`.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Where its models answer.
    pub model_hosts: &'static [&'static str],
    pub model_paths: &'static [&'static str],
}

/// A request that the gateway answers or refuses by itself, whatever the grants say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LocalRoute {
    /// An attempt to refresh a credential: the box can neither mint nor burn a real one.
    Refresh(Provider),
    /// The call that asks who is logged in.
    Profile(Provider),
    /// The call that asks which accounts a login may act for. No model is called without an answer.
    Accounts,
    /// The call that asks for the account's own preferences: there are none.
    Preferences,
    /// Known telemetry, answered 204.
    Telemetry,
    /// Remote settings and side calls, answered 404, which the agents tolerate.
    Settings,
    /// Turns a credential into a durable one: refused.
    DurableCredential,
}

impl LocalRoute {
    /// The word for it in the ledger.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Refresh(_) => "refresh-attempt",
            Self::Profile(_) => "profile",
            Self::Accounts => "accounts",
            Self::Preferences => "preferences",
            Self::Telemetry => "telemetry",
            Self::Settings => "settings",
            Self::DurableCredential => "durable-credential",
        }
    }
}

#[must_use]
pub const fn facts(provider: Provider) -> Facts {
    match provider {
        Provider::Anthropic => Facts { model_hosts: &["api.anthropic.com"], model_paths: &["/v1/messages"] },
        Provider::Openai => {
            Facts { model_hosts: &["api.openai.com"], model_paths: &["/v1/responses", "/v1/chat/completions"] }
        }
        Provider::OpenaiCodex => {
            Facts { model_hosts: &["chatgpt.com"], model_paths: &["/backend-api/codex/responses"] }
        }
    }
}

/// The provider whose models answer at this host.
#[must_use]
pub fn model_host(host: &Host) -> Option<Provider> {
    let Host::Name(name) = host else { return None };
    Provider::ALL.into_iter().find(|provider| facts(*provider).model_hosts.contains(&&**name))
}

/// Which of the gateway's own routes a request is, if any. What is durable is found in every reading of the path.
#[must_use]
pub fn local_route(target: &Target, method: &Method, path: &NormalPath) -> Option<LocalRoute> {
    let Host::Name(host) = target.host() else {
        return None;
    };
    let host: &str = host;
    let own =
        ROUTES.iter().find(|route| target.port() == 443 && route.is(host, method, path)).map(|route| route.answer);
    if own.is_none() && makes_durable(host, method, path) { Some(LocalRoute::DurableCredential) } else { own }
}

/// One line of the table below.
struct Route {
    hosts: &'static [&'static str],
    method: Option<Method>,
    path: Shape,
    answer: LocalRoute,
}

#[derive(Clone, Copy)]
enum Shape {
    /// This path alone.
    Is(&'static str),
    /// Everything that begins like this, in every reading; ends with `/` or `-`.
    Begins(&'static str),
}

impl Route {
    fn is(&self, host: &str, method: &Method, path: &NormalPath) -> bool {
        self.hosts.contains(&host) && self.method.as_ref().is_none_or(|wanted| wanted == method) && self.path.is(path)
    }
}

impl Shape {
    fn is(self, path: &NormalPath) -> bool {
        match self {
            Self::Is(exact) => path.is(exact),
            Self::Begins(start) => path.begins(start),
        }
    }
}

const ANTHROPIC_API: &[&str] = &["api.anthropic.com"];
const ANTHROPIC_TOKEN: &[&str] = &["platform.claude.com", "console.anthropic.com", "api.anthropic.com"];

const OPENAI_TOKEN: &[&str] = &["auth.openai.com"];
const CHATGPT: &[&str] = &["chatgpt.com"];
/// Where pi looks for its own versions and lists of models.
const PI: &[&str] = &["pi.dev"];

/// The first that matches answers.
const ROUTES: &[Route] = &[
    Route {
        hosts: ANTHROPIC_TOKEN,
        method: Some(Method::POST),
        path: Shape::Is("/v1/oauth/token"),
        answer: LocalRoute::Refresh(Provider::Anthropic),
    },
    Route {
        hosts: ANTHROPIC_API,
        method: Some(Method::GET),
        path: Shape::Is("/api/oauth/profile"),
        answer: LocalRoute::Profile(Provider::Anthropic),
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Begins("/api/event_logging/"),
        answer: LocalRoute::Telemetry,
    },
    Route { hosts: ANTHROPIC_API, method: None, path: Shape::Begins("/api/eval/"), answer: LocalRoute::Telemetry },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_code/metrics"),
        answer: LocalRoute::Telemetry,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_code/organizations/metrics_enabled"),
        answer: LocalRoute::Telemetry,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_code/settings"),
        answer: LocalRoute::Settings,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_code/policy_limits"),
        answer: LocalRoute::Settings,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_cli/bootstrap"),
        answer: LocalRoute::Settings,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/claude_code_penguin_mode"),
        answer: LocalRoute::Settings,
    },
    Route {
        hosts: ANTHROPIC_API,
        method: None,
        path: Shape::Is("/api/directory/server-urls"),
        answer: LocalRoute::Settings,
    },
    Route {
        hosts: OPENAI_TOKEN,
        method: Some(Method::POST),
        path: Shape::Is("/oauth/token"),
        answer: LocalRoute::Refresh(Provider::OpenaiCodex),
    },
    Route {
        hosts: OPENAI_TOKEN,
        method: Some(Method::POST),
        path: Shape::Is("/api/accounts/oauth/token"),
        answer: LocalRoute::Refresh(Provider::OpenaiCodex),
    },
    Route {
        hosts: CHATGPT,
        method: Some(Method::GET),
        path: Shape::Is("/backend-api/wham/accounts/check"),
        answer: LocalRoute::Accounts,
    },
    Route {
        hosts: CHATGPT,
        method: Some(Method::GET),
        path: Shape::Is("/backend-api/wham/settings/user"),
        answer: LocalRoute::Preferences,
    },
    Route {
        hosts: CHATGPT,
        method: None,
        path: Shape::Begins("/backend-api/codex/analytics-events/"),
        answer: LocalRoute::Telemetry,
    },
    Route {
        hosts: CHATGPT,
        method: Some(Method::GET),
        path: Shape::Is("/backend-api/codex/models"),
        answer: LocalRoute::Settings,
    },
    Route { hosts: CHATGPT, method: None, path: Shape::Begins("/backend-api/ps/"), answer: LocalRoute::Settings },
    Route { hosts: CHATGPT, method: None, path: Shape::Begins("/backend-api/plugins/"), answer: LocalRoute::Settings },
    Route { hosts: &["ab.chatgpt.com"], method: None, path: Shape::Begins("/otlp/"), answer: LocalRoute::Telemetry },
    Route { hosts: PI, method: None, path: Shape::Is("/api/report-install"), answer: LocalRoute::Telemetry },
    Route { hosts: PI, method: None, path: Shape::Begins("/api/"), answer: LocalRoute::Settings },
];

#[cfg(test)]
mod tests;
