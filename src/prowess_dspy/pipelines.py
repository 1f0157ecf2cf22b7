"""Programs of our own that are made of several predictors."""

from __future__ import annotations

from typing import Any

import dspy

from prowess_dspy.signatures import Signature


class MultiChain(dspy.Module):
    """Several chains of thought, and a comparison of them that gives the answer."""

    def __init__(self, signature: Signature, chains: int) -> None:
        super().__init__()
        self.chain = dspy.ChainOfThought(signature)
        self.compare = dspy.MultiChainComparison(signature, M=chains)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer from several attempts."""
        # At temperature 0 all chains would be the same; each gets an id of its own for models that cache.
        attempts = [
            self.chain(**inputs, config={"temperature": 0.7, "rollout_id": number + 1})
            for number in range(self.compare.M)
        ]
        return self.compare(attempts, **inputs)


class ExtractThenAnswer(dspy.Module):
    """Quotes what matters from long inputs, then answers from the quotes and the inputs."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        inputs, outputs = _names(signature.input_fields), _names(signature.output_fields)
        self.extract = dspy.Predict(
            dspy.Signature(
                dict(signature.input_fields),
                f"Another reader must later produce {outputs} with this task: {signature.instructions}\n"
                f"Quote from {inputs} every passage that matters for it, word for word, without conclusions.",
            ).append("passages", dspy.OutputField(desc="quotes, most important first"), type_=list[str])
        )
        self.answer = dspy.ChainOfThought(
            signature.append("passages", dspy.InputField(desc="quotes that matter for the task"), type_=list[str])
        )

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer from passages."""
        passages = self.extract(**inputs).passages
        return dspy.Prediction(**self.answer(**inputs, passages=passages), passages=passages)


class DraftCritiqueRevise(dspy.Module):
    """Drafts an answer, lists its problems, and revises it if there are any."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        outputs = _names(signature.output_fields)
        self.draft = dspy.ChainOfThought(signature)
        self.critique = dspy.Predict(
            dspy.Signature(
                dict(signature.input_fields),
                f"A draft of {outputs} was written for this task: {signature.instructions}\n"
                "List each problem of the draft: errors, omissions, and instructions that it does not follow. "
                "Say where it is and how to fix it. Return an empty list if there are no problems.",
            )
            .append("draft", dspy.InputField(), type_=dict[str, Any])
            .append("problems", dspy.OutputField(desc="one problem each; empty if none"), type_=list[str])
        )
        self.revise = dspy.Predict(
            signature.append("draft", dspy.InputField(desc="the answer to revise"), type_=dict[str, Any]).append(
                "problems", dspy.InputField(desc="the problems to fix, and nothing else"), type_=list[str]
            )
        )
        self.names = tuple(signature.output_fields)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Answer, after one revision at most."""
        first = self.draft(**inputs)
        draft = {name: first[name] for name in self.names}
        problems = self.critique(**inputs, draft=draft).problems
        if not problems:
            return dspy.Prediction(**first, problems=[])
        return dspy.Prediction(**self.revise(**inputs, draft=draft, problems=problems), problems=problems)


def _names(fields: Any) -> str:
    return ", ".join(f"`{name}`" for name in fields)
