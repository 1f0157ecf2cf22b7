select customer, sum(amount) as total from rows group by customer order by customer
