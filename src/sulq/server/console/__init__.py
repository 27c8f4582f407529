"""The product in a browser: pages rendered by the server, over the routes of everyone else.

A page never reaches rows: it calls the routes under /v1 in this process, for the principal whose
session it is, through the same gate, limits and rights as a request from outside.

    app.py              every page, as one Starlette router
    request_context.py  what every request for a page passes, and what a page is given
    api_client.py       the routes under /v1, called in this process
    sessions.py         a key -> a session in a cookie; sign-in links; signing out
    forms.py            fields of a form within limits, and proof that the form is ours
    pages.py            templates -> pages with strict headers; numbers as people read them
    sign_in.py          signing in and out
    oidc_pages.py       signing in with an institution's account, there and back

    dataset_pages.py    the datasets one may use; one's own answers
    ask_pages.py        a question, its price, its answer
    audit_pages.py      exact answers or refusals: made, verdicts, a list reviewed
    board_pages.py      boards of answers, and what is shared
    question_form.py    a form's fields -> a question
    titles.py           a SELECT under a short name
    definitions.py      row functions beside a SELECT
    result_view.py      an answer -> rows with intervals, charts, files
    saved_results.py    answers that were paid for, kept

    model_pages.py      models: priced, watched, looked at, used
    model_form.py       a form's fields -> a model to learn
    model_jobs.py       models on their way

    dataset_form.py     an owner makes a dataset: rows, columns, promise
    multipart.py        a form with a file in it, read as it arrives
    schema_form.py      a schema as one fills it in
    schema_view.py      which of many columns are shown, and one change for several of them
    promise_plan.py     epsilon, delta, T and n move, and the error of typical questions follows
    owner_pages.py      what an owner decides about one dataset
    people_pages.py     analysts, their datasets and keys
    account_pages.py    one's own account; keys shown once, replaced, revoked
    timeline.py         the ledger and the report
    server_pages.py     how the server does, the audit log, the routes of the API with examples

    templates/          what pages look like
    static/             one stylesheet, one small script

The script shows prices while one types and how far a model is. All else works without it.
"""
