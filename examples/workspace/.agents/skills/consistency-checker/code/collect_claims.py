import prowess

claims = []
for page in prowess.search(inputs["entity"]):
    text = prowess.get_page(page["slug"])
    claims += prowess.llm_query(f"List the factual claims about {inputs['entity']} in: {text}")
prowess.submit({"entity": inputs["entity"], "claims": claims})
