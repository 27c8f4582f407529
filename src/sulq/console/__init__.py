"""The product in a browser: pages rendered by the server, over the routes of everyone else.

A page never reaches rows: it calls the routes under /v1 in this process, for the visitor whose
session it is, through the same gate, limits and rights as a request from outside.

    app.py         which requests are for pages, and what every one of them passes
    visits.py      what a page is given: who looks, their form, the routes under /v1
    sessions.py    a key -> a session in a cookie; sign-in links; signing out
    forms.py       fields of a form within limits, and proof that the form is ours
    calls.py       the routes under /v1, called in this process
    pages.py       templates -> pages with strict headers; numbers as people read them
    entering.py    signing in and out

    analyst.py     the datasets one may use; one's charges
    questions.py   a form's fields -> a question
    rehearsals.py  made-up rows, and how close an answer will be
    asking.py      a question, its price, its answer
    showing.py     an answer -> rows with intervals, charts, files
    shelf.py       answers that were paid for, kept
    learning.py    a form's fields -> a model to learn
    jobs.py        models on their way
    models.py      models: priced, watched, looked at, used
    charts.py, pictures.py, curves.py   SVG with error bars, coloured by the stylesheet

    making.py, schemas.py     an owner makes a dataset: rows, columns, promise
    planning.py, plans.py     epsilon, delta, T and n -> the error of typical questions
    owner.py, inviting.py     what an owner decides; people and their keys
    timeline.py, watching.py  the ledger and the report; how the server does
    entrances.py              sign-in links for whoever sits at the server's terminal

    templates/     what pages look like
    static/        one stylesheet, one small script

The script shows prices while one types and how far a model is. All else works without it.
"""

from sulq.console.app import Console

__all__ = ["Console"]
