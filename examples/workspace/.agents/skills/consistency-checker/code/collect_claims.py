import prowess

entity = inputs["entity"]
found = prowess.search(entity)
pages = prowess.get_pages([page["slug"] for page in found])
answers = prowess.llm_query_batched(
    [f"List the factual claims about {entity}, one a line, in this page:\n\n{page['content']}" for page in pages]
)
claims = [
    {"text": line.strip("- "), "page": page["slug"]}
    for page, answer in zip(pages, answers)
    for line in answer.splitlines()
    if line.strip()
]
prowess.submit({"entity": entity, "claims": claims})
