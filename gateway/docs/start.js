SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  tryItOutEnabled: true,
  // Another host that Swagger UI would ask.
  validatorUrl: null,
});
