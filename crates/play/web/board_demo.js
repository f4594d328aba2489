// Fills in the administrator of a demonstration, whom nobody had to configure.

import { byId } from "./page.js";

const { phone, login } = byId("demo").dataset;
byId("phone").value = phone;
document.querySelector("#login p").textContent = login;
