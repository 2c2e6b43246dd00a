//! The gateway: the one door through which anything leaves a box.
//!
//! Read [`flow`] first: it is the journey of one request and the only file that calls the steps.
//! The modules stand in the order in which that journey meets them; parts follow the steps.

pub mod config;
pub mod house;
pub mod flow;
pub mod reload;
pub mod operator;

pub mod policy;
pub mod body;
pub mod live;
pub mod runs;
pub mod box_key;
pub mod ledger;
pub mod recorded;
pub mod vault;
pub mod refresh;
pub mod sign_in;
mod token_host;
pub mod hops;
pub mod websocket;
pub mod dial;
pub mod ca;
pub mod tls;
pub mod host;
pub mod refusal;
pub mod drain;
pub mod rate;
pub mod echo;
pub mod files;
pub mod cli;
