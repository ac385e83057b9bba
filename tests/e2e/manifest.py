"""Twenty-nine tools over httpbin and datasette, in one manifest."""

HTTPBIN, DATASETTE = "{{env.HTTPBIN}}", "{{env.DATASETTE}}"


def tool(name, url, description=None, **more):
    return {"name": name, "description": description or name.replace("_", " "), "url": url, **more}


def string(name, required=True):
    return {"name": name, "required": required}


def integer(name, required=True):
    return {"name": name, "type": "integer", "required": required}


def build():
    secret = {"headers": {"Authorization": "Bearer {{secret.api_token}}"}, "secret_headers": ["Authorization"]}
    table = {"response": {"extract": "json_path", "path": "$.rows"}, "group": "shop", "tags": ["datasette"]}
    one = {"query": {"_shape": "objects"}, "group": "shop", "tags": ["datasette"]}
    tools = [
        # httpbin: methods, headers, query, bodies
        tool("echo_get", f"{HTTPBIN}/get", parameters=[string("q"), string("extra", False)],
             query={"q": "{{q}}", "extra": "{{extra}}", "fixed": "a b"}, headers={"X-Chat": "{{ctx.chat_id}}"}),
        tool("echo_post_json", f"{HTTPBIN}/post", method="POST", side_effect=False,
             parameters={"type": "object", "properties": {"n": {"type": "number"}, "list": {"type": "array", "items": {"type": "string"}}}, "required": ["n"]},
             body={"n": "{{n}}", "list": "{{list}}", "chat": "{{ctx.chat_id}}", "all": "{{call.arguments}}"}),
        tool("echo_post_text", f"{HTTPBIN}/post", method="POST", headers={"Content-Type": "text/plain"},
             parameters=[string("q")], body="Hello {{q}}"),
        tool("echo_post_form", f"{HTTPBIN}/post", method="POST", headers={"Content-Type": "application/x-www-form-urlencoded"},
             parameters=[string("q")], body="q={{q}}&mode=fast"),
        tool("echo_json_text", f"{HTTPBIN}/post", method="POST", parameters=[string("q")], body='{"q": "{{q}}", "n": 1}'),
        tool("echo_put", f"{HTTPBIN}/put", method="PUT", parameters=[string("q")], body={"q": "{{q}}"}),
        tool("echo_patch", f"{HTTPBIN}/patch", method="PATCH", parameters=[string("q")], body={"q": "{{q}}"}),
        tool("echo_delete", f"{HTTPBIN}/delete", method="DELETE", idempotency_key_header="Idempotency-Key"),
        tool("head_only", f"{HTTPBIN}/get", method="HEAD", response={"extract": "status"}),
        tool("echo_path", f"{HTTPBIN}/anything/items/{{{{item}}}}/stock", parameters=[string("item")],
             response={"extract": "json_path", "path": "url"}),
        tool("echo_secret", f"{HTTPBIN}/headers", **secret),
        tool("bearer", f"{HTTPBIN}/bearer", **secret, response={"extract": "json_path", "path": "authenticated"}),
        # httpbin: statuses, redirects, delays
        tool("status_of", f"{HTTPBIN}/status/{{{{code}}}}", parameters=[integer("code")], response={"extract": "status"}),
        tool("status_error", f"{HTTPBIN}/status/{{{{code}}}}", parameters=[integer("code")]),
        tool("redirects", f"{HTTPBIN}/redirect-to", query={"url": "http://169.254.169.254/latest"}),
        tool("slow", f"{HTTPBIN}/delay/3", timeout=1),
        tool("slow_effect", f"{HTTPBIN}/delay/3", method="POST", timeout=1),
        # httpbin: bodies
        tool("gzipped", f"{HTTPBIN}/gzip", response={"extract": "json_path", "path": "gzipped"}),
        tool("brotli", f"{HTTPBIN}/brotli", response={"extract": "json_path", "path": "brotli"}),
        tool("deflated", f"{HTTPBIN}/deflate"),
        tool("large", f"{HTTPBIN}/bytes/100000", response={"extract": "status"}),
        tool("cookies", f"{HTTPBIN}/cookies", headers={"Cookie": "flavour={{flavour}}"}, parameters=[string("flavour")],
             response={"extract": "json_path", "path": "cookies.flavour"}),
        tool("set_cookie", f"{HTTPBIN}/cookies/set/a/b"),
        tool("html_page", f"{HTTPBIN}/html"),
        tool("slideshow_titles", f"{HTTPBIN}/json", response={"extract": "json_path", "path": "$.slideshow.slides[?@.type=='all'].title"}),
        # datasette: a JSON API with real data
        tool("list_products", f"{DATASETTE}/shop/products.json", parameters=[integer("limit", False), string("after", False)],
             query={"_size": "{{limit}}", "_next": "{{after}}", "_shape": "objects"}, **table),
        tool("find_product", f"{DATASETTE}/shop/products.json", parameters=[string("sku")],
             **{**one, "query": {"_shape": "objects", "sku__exact": "{{sku}}"}},
             response={"extract": "json_path", "path": "$.rows[0].name"}),
        tool("count_products", f"{DATASETTE}/shop/products.json", **one, response={"extract": "json_path", "path": "filtered_table_rows_count"}),
        tool("order_state", f"{DATASETTE}/shop/orders.json", parameters=[integer("order")],
             **{**one, "query": {"_shape": "objects", "id__exact": "{{order}}"}},
             response={"extract": "json_path", "path": "rows.0"},
             halt_when={"json_path": "rows.0.state", "equals": "SHIPPED", "say": {"text": "It is on its way."}}),
        tool("cheap_products", f"{DATASETTE}/shop.json", parameters={"type": "object", "properties": {"price": {"type": "number", "minimum": 0}}, "required": ["price"]},
             group="shop", query={"_shape": "array", "sql": "select sku as id, name as line from products where price < :price order by price", "price": "{{price}}"},
             response={"extract": "json_path", "path": "$[*].id"}),
    ]
    return {"version": 1, "defaults": {"tags": ["e2e"], "timeout": 20}, "tools": tools}
