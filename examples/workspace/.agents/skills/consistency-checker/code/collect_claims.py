import prowess

CLAIMS = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
}

entity = inputs["entity"]
found = prowess.search(entity)
pages = prowess.get_pages([page["slug"] for page in found])
answers = prowess.llm_query_batched(
    [
        f"Read this page and list its factual claims about {entity}, one short sentence each, as JSON."
        f" If it makes none, give an empty list.\n\n{page['content']}"
        for page in pages
    ],
    schema=CLAIMS,
)
claims = [
    {"text": claim, "page": page["slug"]} for page, answer in zip(pages, answers) for claim in answer["claims"]
]
prowess.submit({"entity": entity, "claims": claims})
