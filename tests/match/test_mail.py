"""Requests in e-mails, with headers, signatures and what they answer."""

from __future__ import annotations

import pytest

from prowess.match.request import read_mail, read_request

REQUEST = "Please merge the three contracts below into one PDF"
SIGNATURE = "Martina Hoffmann | Head of Operations\nNordlicht Handels GmbH, 20457 Hamburg\nwww.nordlicht-handel.example"
QUOTE = "> Hi Martina,\n> thanks for the nice lunch on Friday."


@pytest.mark.parametrize(
    "closing", ["--", "-- ", "Best regards,", "Cheers", "Viele Grüße", "Un saludo,", "Cordialement"]
)
def test_a_signature_is_left_out(closing: str):
    assert read_mail(f"Hi all,\n\n{REQUEST}\n\n{closing}\n{SIGNATURE}").text.strip() == f"Hi all,\n\n{REQUEST}"


@pytest.mark.parametrize(
    "attribution",
    [
        "On Tue, Oct 1, 2024 at 9:14 AM Peter <peter@olsen.example> wrote:",
        "Am 12.09.2024 um 09:14 schrieb Peter <peter@olsen.example>:",
        "Le 2 oct. 2024 à 18:03, Peter a écrit :",
        "El 4 oct, Peter escribió:",
    ],
)
def test_what_a_mail_answers_is_context(attribution: str):
    mail = read_mail(f"{REQUEST}\n\n{attribution}\n{QUOTE}")
    assert mail.text.strip() == REQUEST
    assert mail.quoted.splitlines() == ["Hi Martina,", "thanks for the nice lunch on Friday."]
    assert "lunch" in read_request(f"{REQUEST}\n\n{attribution}\n{QUOTE}", lambda _: False).pasted


def test_headers_are_left_out_and_the_subject_stays():
    message = f"From: Helen <helen@dental.example>\nTo: IT\nDate: Tue, 8 Oct 2024\nSubject: Fwd: Re: new starters\n\n{REQUEST}"
    assert read_mail(message).text == f"new starters\n\n{REQUEST}"


def test_a_forwarded_text_stays():
    message = f"see below\n\n---------- Forwarded message ---------\nFrom: Dan\nSubject: recipes\n\n{REQUEST}"
    assert REQUEST in read_mail(message).text
    assert "Forwarded" not in read_mail(message).text


@pytest.mark.parametrize(
    "message",
    [
        "translate this:\nfrom: the sea\nwith love",
        "> all of this\n> was written\n> by somebody else",
        "--\nBest regards\nPeter",
        "make a thank you page\nwith a form\nand a photo",
        "make the header blue\nthanks\n\nalso make the footer green",
        "thanks",
        "",
    ],
)
def test_other_texts_stay_as_they_are(message: str):
    assert read_mail(message) == (message, "")


def test_a_text_below_a_signature_counts_again_after_a_header():
    message = f"fyi\nThanks\nJo\n\nBegin forwarded message:\nFrom: App Review\nSubject: contracts\n\n{REQUEST}"
    assert REQUEST in read_mail(message).text
