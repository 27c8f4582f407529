"""What the API and the console both work on.

context.py          everything a server of one folder needs, put together once
settings.py         [server] of sulq.toml, and the environment
registry.py         people, keys, datasets, alarms, sessions, models, boards: who may do what
registry_tables.py  its tables, step by step
registry_file.py    a registry in one SQLite file
registry_server.py  a registry in PostgreSQL, which several servers share
registry_move.py    the file of a folder -> PostgreSQL, once
shared_rate.py      how often one person may ask, at all servers of a registry
people.py           owners, analysts and their keys
spending_caps.py    how much one key may spend, as its owner said
scram.py            SCRAM-SHA-256: a key is proved without being sent
grounds.py          what granted each right, and whether that still stands
access.py           a key -> a Principal, and what a Principal may see
datasets.py         datasets by name, and the databases behind them
dataset_ledgers.py  the ledger that the rows of a dataset have: found, begun, recognised, given up
locations.py        paths in the folder, relative to it, so that it can move
allowed_sources.py  which files and addresses an owner may name over HTTP
uploads.py          files of rows that owners send, streamed into their folder
passwords.py        passwords of addresses, beside the registry
work_meter.py       one meter of all work before a charge: requests, seconds, bytes
admission.py        how often, how many, how much one person may ask
high_water.py       the latest time that was seen: a clock set back revives no key
accepted_clock.py   the machine's clock accepted by whoever runs the server
scan_times.py       what questions take, on made-up rows
slots.py            how long a batch of questions lasts
quiet.py            slots measured again while nobody asks
renewals.py         a dataset's rows as they are now, or more of them
garbage.py          when memory is tidied: between batches
windows.py          the public moments of one batch
beat.py             questions gathered, answered in batches, replies that leave together
lateness.py         what a late reply says, and why: a slow machine, or slow rows?
threads.py          few threads, shared fairly
asked.py            a question that was read and waits for its batch
boards.py           boards of answers, and what people of a dataset share
answers.py          one question: read, gathered, answered, and its reply on the beat
actors.py           who acts, as the audit log names them for good
audit_log.py        an owner's audit log: who was let in, who decided what, chained
web_addresses.py    addresses that others wrote, of which none is an error
oidc_settings.py    [oidc] of sulq.toml: whose accounts sign in, and what their roles open
oidc.py             an institution's issuer: where it signs people in, and its tokens
institution.py      accounts of an institution -> people here, by what tokens claim
outbox.py           messages that are to be sent to an owner
webhooks.py         messages sent: budget low, frozen, late, key expiring
events.py           freezes, invitations and keys, for timelines and reports
histories.py        the ledger, page by page
responses.py        results and errors -> the one shape they leave in
logs.py             what happened, without values or secrets
metrics.py          counts for owners
dataset_states.py   can each dataset be asked, and if not, why: computed once
readiness.py        may this server be sent questions, by the states of its datasets
backup_manifest.py  what a backup holds, with a hash of each file
folder.py           a server's folder: begun, backed up, restored
"""
